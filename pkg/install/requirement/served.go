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

// lookups looks up the kinds that one ClusterServiceVersion requires.
type lookups struct {
	World
	// crds are the cluster's CustomResourceDefinitions. They are listed on first use.
	crds *apiextensionsv1.CustomResourceDefinitionList
	// unserved is the number of required kinds found so far that are not served.
	unserved int
}

// require sets the status of the requirement for a kind, using either present or absent as its message. After finding
// kinds.MaxUnserved kinds that are not served, it stops checking kinds.
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

// serves reports whether the API server serves a kind. It returns true if an established CustomResourceDefinition
// defines the kind. Otherwise, if the group version has an APIService, discovery determines the result; a negative
// result is cached until the APIService changes.
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
