package requirement

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/step/crd"
)

// lookups are the lookups for one ClusterServiceVersion.
type lookups struct {
	World
	// crds are the cluster's CustomResourceDefinitions; nil until they are needed.
	crds *apiextensionsv1.CustomResourceDefinitionList
	// unserved counts the kinds that are not served.
	unserved int
}

// require completes the status of a kind. Of many kinds that are not served, only the first are checked.
func (l *lookups) require(ctx context.Context, status *operatorsv1alpha1.RequirementStatus, gvk schema.GroupVersionKind, present, absent string) error {
	if l.unserved >= kinds.MaxUnserved {
		status.Status = NotPresent
		status.Message = fmt.Sprintf("Not checked until fewer than %d other kinds are missing", kinds.MaxUnserved)
		return nil
	}
	isServed, err := l.serves(ctx, gvk)
	switch {
	case err != nil:
		return err
	case isServed:
		status.Status, status.Message = Present, present
	default:
		status.Status, status.Message = NotPresent, absent
		l.unserved++
	}
	return nil
}

// serves reports whether the API server serves a kind: through an established CustomResourceDefinition or, if the
// group version has an APIService, according to discovery, cached until that APIService changes.
func (l *lookups) serves(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	if l.crds == nil {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := l.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		l.crds = list
	}
	if slices.ContainsFunc(l.crds.Items, func(d apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Defines(&d, gvk) && apihelpers.IsCRDConditionTrue(&d, apiextensionsv1.Established)
	}) {
		return true, nil
	}
	api := &apiregistrationv1.APIService{}
	exists, err := apply.Read(ctx, l.Reader, client.ObjectKey{Name: apiServiceName(gvk.Group, gvk.Version)}, api)
	if err != nil || !exists {
		return false, err
	}
	return l.Unserved.Serves(l.Mapper, gvk, string(api.UID)+"/"+api.ResourceVersion)
}
