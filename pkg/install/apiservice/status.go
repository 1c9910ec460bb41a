package apiservice

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

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

// Taken says whether somebody else serves an API: with an APIService that is not of this lineage, or by a
// CustomResourceDefinition. live is nil where there is no APIService. The error is a *TakenError.
func Taken(api API, owner ownerutil.Owner, live *apiregistrationv1.APIService, crds []apiextensionsv1.CustomResourceDefinition) error {
	if live != nil && !owner.Owns(live) {
		why := owner.Stranger()
		if live.Spec.Service == nil {
			why = "the API server serves it itself"
		}
		return &TakenError{Name: api.Name(), Why: why}
	}
	for i := range crds {
		if crds[i].Spec.Group != api.Group {
			continue
		}
		for _, v := range crds[i].Spec.Versions {
			if v.Name == api.Version && v.Served {
				return &TakenError{Name: api.Name(), Why: fmt.Sprintf("CustomResourceDefinition %q serves it", crds[i].Name)}
			}
		}
	}
	return nil
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
