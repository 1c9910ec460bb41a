package execute

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/step"
)

// The label by which the API server marks the APIServices that it keeps itself, and its value for those of the APIs that it
// is built with. Those of CustomResourceDefinitions have another.
const (
	labelAutomanaged = "kube-aggregator.kubernetes.io/automanaged"
	builtIn          = "onstart"
)

// Claims says whether an APIService reserves its group: another API server serves it, or the API server does so without a
// CustomResourceDefinition. Whoever serves one version of a group decides, by its priority, what clients take for the
// group's own, so no other version of it is free.
func Claims(api *apiregistrationv1.APIService) bool {
	return api.Spec.Service != nil || api.Labels[labelAutomanaged] == builtIn
}

// gatherAPIs reads the APIServices where one of the steps may have to keep out of their groups.
func (e *Executor) gatherAPIs(ctx context.Context, steps []step.Step) error {
	e.apis = nil
	if !slices.ContainsFunc(steps, step.Step.IsCRD) {
		return nil
	}
	list := &apiregistrationv1.APIServiceList{}
	if err := e.APIServices.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	e.apis = list.Items
	return nil
}

// reserved says why only the default account may write a CustomResourceDefinition: its group belongs to Kubernetes or to
// this API, or is below one that does (security model, D1), or somebody else serves it (docs/adr/0022).
func (e *Executor) reserved(s step.Step) error {
	name, _, _ := unstructured.NestedString(s.Object.Object, "spec", "group")
	if isProtected(name) {
		return fmt.Errorf("%s is of a protected API group: only the installation's default account may write it", apply.Describe(s.Object))
	}
	for i := range e.apis {
		if api := &e.apis[i]; group.Same(api.Spec.Group, name) && Claims(api) && !s.Owner.Owns(api) {
			return fmt.Errorf("%s is of API group %q, which APIService %q serves: only the installation's default account may write it",
				apply.Describe(s.Object), name, api.Name)
		}
	}
	return nil
}

func isProtected(name string) bool {
	return group.Protected(name)
}
