package scoped

import (
	"context"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// LeftToOLM reports whether the annotations of an OperatorGroup or CatalogSource state that OLM v0 manages it. Anyone
// who can write the object can set the annotation, which is safe: it only reduces what Remit does.
func LeftToOLM(obj metav1.Object) bool {
	return obj.GetAnnotations()[names.AnnotationManagedBy] == names.ManagedByOLM
}

// LeavesToOLM reports whether OLM v0 manages a namespace, which is the case if one of its OperatorGroups has the
// annotation. Controllers call it first and do nothing in such a namespace, so that two managers never write the same
// object. CheckNotLeft repeats the check before a write.
func (l Lookup) LeavesToOLM(ctx context.Context, namespace string) (bool, error) {
	list := &operatorsv1.OperatorGroupList{}
	if err := l.Reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list OperatorGroups in namespace %q: %w", namespace, err)
	}
	return slices.ContainsFunc(list.Items, func(og operatorsv1.OperatorGroup) bool { return LeftToOLM(&og) }), nil
}

// CheckNotLeft returns an error if OLM v0 manages the namespace of an OperatorGroup that was read from the API server.
// The error is a conflict, which is not reported in a status: the caller's cache is outdated and will soon contain the
// annotation.
func CheckNotLeft(og *operatorsv1.OperatorGroup) error {
	if og == nil || !LeftToOLM(og) {
		return nil
	}
	return apierrors.NewConflict(operatorsv1.Resource("operatorgroups"), og.Name,
		fmt.Errorf("according to its annotation %s, OLM v0 manages namespace %q", names.AnnotationManagedBy, og.Namespace))
}
