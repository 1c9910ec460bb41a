package install

import (
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// AccountNotCovering starts the message of a requirement of kind ServiceAccount with missing permissions, as the
// contract specifies (OLM v0, 1.7). The missing permissions follow, by scope.
const AccountNotCovering = "Policy rule not satisfied for service account: "

// ExceedsAccount returns, from a ClusterServiceVersion's status, which permissions the account with this UID is
// missing; "" if none.
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
