package apiservice

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// messageNotAdoptable is the contract's (1.12).
const messageNotAdoptable = "pre-existing APIService %s is not adoptable"

// TakenError says that an API is served by somebody else.
type TakenError struct {
	Name string
	// Why says by whom.
	Why string
}

func (e *TakenError) Error() string { return fmt.Sprintf(messageNotAdoptable, e.Name) + ": " + e.Why }

// Taken says whether somebody else serves an API's group, whatever the version: with an APIService that is not of this
// lineage, or by a CustomResourceDefinition. Who serves one version of a group decides, by its priorities, what clients
// take for the group's own. all are the cluster's APIServices. The error is a *TakenError.
func Taken(api API, owner ownerutil.Owner, all []*apiregistrationv1.APIService, crds []apiextensionsv1.CustomResourceDefinition) error {
	for _, live := range all {
		if !group.Same(live.Spec.Group, api.Group) && live.Name != api.Name() || owner.Owns(live) {
			continue
		}
		return &TakenError{Name: api.Name(), Why: by(api, owner, live, crds)}
	}
	if crd := definitionOf(api, crds); crd != "" {
		return &TakenError{Name: api.Name(), Why: fmt.Sprintf("CustomResourceDefinition %q serves its group", crd)}
	}
	return nil
}

// by says who serves the group by an APIService.
func by(api API, owner ownerutil.Owner, live *apiregistrationv1.APIService, crds []apiextensionsv1.CustomResourceDefinition) string {
	crd := definitionOf(api, crds)
	switch {
	case live.Spec.Service != nil && live.Name == api.Name():
		return owner.Check(live).Error()
	case live.Spec.Service != nil:
		return fmt.Sprintf("APIService %q serves its group: %s", live.Name, owner.Check(live))
	case crd != "":
		return fmt.Sprintf("CustomResourceDefinition %q serves its group", crd)
	}
	return "the API server serves it itself"
}

// definitionOf is the first CustomResourceDefinition of an API's group; "" where there is none.
func definitionOf(api API, crds []apiextensionsv1.CustomResourceDefinition) string {
	for i := range crds {
		if group.Same(crds[i].Spec.Group, api.Group) {
			return crds[i].Name
		}
	}
	return ""
}

// Status says whether an APIService is available, and if not, why.
func Status(live *apiregistrationv1.APIService) (available bool, why string) {
	for _, c := range live.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue, fmt.Sprintf("APIService %s is not available: %s", live.Name, c.Message)
		}
	}
	return false, fmt.Sprintf("APIService %s is not available: missing condition", live.Name)
}
