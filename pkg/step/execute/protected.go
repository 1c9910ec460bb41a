package execute

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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

// gatherAPIs reads who serves which groups where one of the steps may have to keep out of them.
func (e *Executor) gatherAPIs(ctx context.Context, steps []step.Step) error {
	e.served = Served{}
	if !slices.ContainsFunc(steps, step.Step.IsCRD) {
		return nil
	}
	var err error
	e.served, err = ReadServed(ctx, e.Cluster, steps)
	return err
}

// Served is who serves API groups: what the CustomResourceDefinitions of a plan have to keep out of.
type Served struct {
	APIs []apiregistrationv1.APIService
	// CRDs are those of the cluster. They are read only where the plan has one that is Approved.
	CRDs []apiextensionsv1.CustomResourceDefinition
}

// ReadServed reads it, from a cache for choice. The objects must not be changed.
func ReadServed(ctx context.Context, from client.Reader, steps []step.Step) (Served, error) {
	apis := &apiregistrationv1.APIServiceList{}
	if err := from.List(ctx, apis, client.UnsafeDisableDeepCopy); err != nil {
		return Served{}, fmt.Errorf("list APIServices: %w", err)
	}
	if !slices.ContainsFunc(steps, Approved) {
		return Served{APIs: apis.Items}, nil
	}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := from.List(ctx, crds, client.UnsafeDisableDeepCopy); err != nil {
		return Served{}, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	return Served{APIs: apis.Items, CRDs: crds.Items}, nil
}

// Approved says whether a step is a CustomResourceDefinition of a group below k8s.io that says by the annotation which the API
// server asks for that the group was agreed on. An account writes it by permissions of its own only: the installation's CRD
// account does not write it for others (docs/adr/0022).
func Approved(s step.Step) bool {
	return s.IsCRD() && group.Community(groupOf(s)) && s.Object.GetAnnotations()[apiextensionsv1.KubeAPIApprovedAnnotation] != ""
}

func groupOf(s step.Step) string {
	name, _, _ := unstructured.NestedString(s.Object.Object, "spec", "group")
	return name
}

// Reserved says why only the default account may write a CustomResourceDefinition, whatever the cluster serves: its group
// belongs to Kubernetes or to this API, or is below one that does (security model, D1), and it is not Approved.
func Reserved(s step.Step) error {
	if s.IsCRD() && isProtected(groupOf(s)) && !Approved(s) {
		return fmt.Errorf("%s is of a protected API group: only the installation's default account may write it", apply.Describe(s.Object))
	}
	return nil
}

// Taken says why only the default account may write a CustomResourceDefinition: somebody else serves its group
// (docs/adr/0022 and 0037).
func (served Served) Taken(s step.Step) error {
	name := groupOf(s)
	for i := range served.APIs {
		if api := &served.APIs[i]; group.Same(api.Spec.Group, name) && Claims(api) && !s.Owner.Owns(api) {
			return fmt.Errorf("%s is of API group %q, which APIService %q serves: only the installation's default account may write it",
				apply.Describe(s.Object), name, api.Name)
		}
	}
	if !Approved(s) {
		return nil
	}
	if clientgoscheme.Scheme.IsGroupRegistered(strings.ToLower(name)) {
		return fmt.Errorf("%s is of API group %q, which is Kubernetes' own: only the installation's default account may write it", apply.Describe(s.Object), name)
	}
	for i := range served.CRDs {
		if other := &served.CRDs[i]; group.Same(other.Spec.Group, name) && !s.Owner.Owns(other) {
			return fmt.Errorf("%s is of API group %q, in which CustomResourceDefinition %q is not of this operator: only the installation's default account may write it",
				apply.Describe(s.Object), name, other.Name)
		}
	}
	return nil
}

func isProtected(name string) bool {
	return group.Protected(name)
}
