package execute

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/step"
)

// The label with which the API server marks the APIServices that it manages, and its value for built-in APIs.
// APIServices for CustomResourceDefinitions have a different value.
const (
	labelAutomanaged = "kube-aggregator.kubernetes.io/automanaged"
	builtIn          = "onstart"
)

// Claims reports whether an APIService reserves its group: another API server serves it, or the Kubernetes API server
// itself serves it without a CustomResourceDefinition. The priority of one version determines the preferred version of
// the whole group, so the other versions are reserved as well.
func Claims(api *apiregistrationv1.APIService) bool {
	return api.Spec.Service != nil || api.Labels[labelAutomanaged] == builtIn
}

// gatherAPIs reads the owners of API groups if the plan contains CustomResourceDefinitions.
func (e *Executor) gatherAPIs(ctx context.Context, steps []step.Step) error {
	e.served = Served{}
	if !slices.ContainsFunc(steps, step.Step.IsCRD) {
		return nil
	}
	var err error
	e.served, err = ReadServed(ctx, e.Cluster, steps)
	return err
}

// Served contains the owners of API groups that the CustomResourceDefinitions of a plan must not collide with.
type Served struct {
	APIs []apiregistrationv1.APIService
	// CRDs are the cluster's CustomResourceDefinitions. They are read only if the plan contains an Approved one.
	CRDs []apiextensionsv1.CustomResourceDefinition
}

// ReadServed reads the owners of API groups that matter to the steps. The returned objects must not be modified,
// because "from" is usually a cache and does not copy them.
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

// Approved reports whether a step is a CustomResourceDefinition whose group is below k8s.io and that has the annotation with
// which its author declares the group approved, as the API server requires. An account may write it only with its own
// permissions: the installation's CRD account does not write it for other accounts (docs/adr/0022).
func Approved(s step.Step) bool {
	return s.IsCRD() && group.Community(groupOf(s)) && s.Object.GetAnnotations()[apiextensionsv1.KubeAPIApprovedAnnotation] != ""
}

func groupOf(s step.Step) string { return bundle.DefinedKind(s.Object).Group }

// Reserved returns the reason why only the default account may write a CustomResourceDefinition, regardless of what the cluster
// serves: its group is protected (group.Protected), and it is not Approved.
func Reserved(s step.Step) error {
	if s.IsCRD() && group.Protected(groupOf(s)) && !Approved(s) {
		return fmt.Errorf("%s is in a protected API group: only the installation's default account may write it", apply.Describe(s.Object))
	}
	return nil
}

// Taken returns the reason why only the default account may write a CustomResourceDefinition: another owner serves
// its group (docs/adr/0022 and 0037).
func (served Served) Taken(s step.Step) error {
	name := groupOf(s)
	for i := range served.APIs {
		if api := &served.APIs[i]; group.Same(api.Spec.Group, name) && Claims(api) && !s.Owner.Owns(api) {
			return fmt.Errorf("%s is in API group %q, which APIService %q serves: only the installation's default account may write it",
				apply.Describe(s.Object), name, api.Name)
		}
	}
	if !Approved(s) {
		return nil
	}
	if clientgoscheme.Scheme.IsGroupRegistered(strings.ToLower(name)) {
		return fmt.Errorf("%s is in API group %q, which belongs to Kubernetes: only the installation's default account may write it", apply.Describe(s.Object), name)
	}
	for i := range served.CRDs {
		if other := &served.CRDs[i]; group.Same(other.Spec.Group, name) && !s.Owner.Owns(other) {
			return fmt.Errorf("%s is in API group %q, in which CustomResourceDefinition %q does not belong to this operator: only the installation's default account may write it",
				apply.Describe(s.Object), name, other.Name)
		}
	}
	return nil
}
