package install

import (
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// AccountNotCovering starts the message of a requirement of kind ServiceAccount that does not hold all that
// it should, in the contract's words (OLM v0, 1.7); what is missing where follows.
const AccountNotCovering = "Policy rule not satisfied for service account: "

// ExceedsAccount reads off a ClusterServiceVersion's status by what it exceeds the account of this UID; ""
// where it does not.
func ExceedsAccount(csv *operatorsv1alpha1.ClusterServiceVersion, account types.UID) string {
	for _, r := range csv.Status.RequirementStatus {
		if r.Kind != "ServiceAccount" || r.UUID != string(account) {
			continue
		}
		if excess, ok := strings.CutPrefix(r.Message, AccountNotCovering); ok {
			return excess
		}
	}
	return ""
}
