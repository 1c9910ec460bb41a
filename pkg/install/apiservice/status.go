package apiservice

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// messageNotAdoptable is the message that the contract defines. A description of what serves the API follows.
const messageNotAdoptable = "pre-existing APIService %s is not adoptable: %s"

// Taken returns an error if another owner serves any version of the API's group, through an APIService of another
// lineage or a CustomResourceDefinition. It checks all versions, because the priorities of a single APIService
// determine the preferred version of the whole group. "all" contains all APIServices in the cluster.
func Taken(api API, owner ownerutil.Owner, all []*apiregistrationv1.APIService, crds []apiextensionsv1.CustomResourceDefinition) error {
	for _, live := range all {
		if !group.Same(live.Spec.Group, api.Group) && live.Name != api.Name() || owner.Owns(live) {
			continue
		}
		return fmt.Errorf(messageNotAdoptable, api.Name(), servedBy(api, owner, live, crds))
	}
	if crd := definitionOf(api, crds); crd != "" {
		return fmt.Errorf(messageNotAdoptable, api.Name(), fmt.Sprintf("CustomResourceDefinition %q serves the same API group", crd))
	}
	return nil
}

// servedBy describes what already serves the API's group. live is an APIService of the group that does not belong to
// owner.
func servedBy(api API, owner ownerutil.Owner, live *apiregistrationv1.APIService, crds []apiextensionsv1.CustomResourceDefinition) string {
	crd := definitionOf(api, crds)
	switch {
	case live.Spec.Service != nil && live.Name == api.Name():
		return owner.Check(live).Error()
	case live.Spec.Service != nil:
		return fmt.Sprintf("APIService %q serves the same API group: %s", live.Name, owner.Check(live))
	case crd != "":
		return fmt.Sprintf("CustomResourceDefinition %q serves the same API group", crd)
	}
	return "the API server itself serves the API"
}

// definitionOf returns the name of the first CustomResourceDefinition in an API's group, or "".
func definitionOf(api API, crds []apiextensionsv1.CustomResourceDefinition) string {
	for i := range crds {
		if group.Same(crds[i].Spec.Group, api.Group) {
			return crds[i].Name
		}
	}
	return ""
}

// Status reports whether an APIService is available. If it is not, why is the reason.
func Status(live *apiregistrationv1.APIService) (available bool, why string) {
	for _, c := range live.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue, fmt.Sprintf("APIService %s is not available: %s", live.Name, c.Message)
		}
	}
	return false, fmt.Sprintf("APIService %s is not available: missing condition", live.Name)
}
