package install

import (
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// AccountNotCovering is the prefix of a requirement's message if the requirement has kind ServiceAccount and
// permissions are missing, as the OLM v0 contract specifies. The missing permissions follow, grouped by scope.
const AccountNotCovering = "Policy rule not satisfied for service account: "

// IsExcess reports whether a requirement lists permissions that an account is missing.
func IsExcess(r operatorsv1alpha1.RequirementStatus) bool {
	return r.Kind == "ServiceAccount" && strings.HasPrefix(r.Message, AccountNotCovering)
}

// ExceedsAccount returns the permissions that the account with this UID is missing according to a
// ClusterServiceVersion's status, or "" if there are none.
func ExceedsAccount(csv *operatorsv1alpha1.ClusterServiceVersion, account types.UID) string {
	for _, r := range csv.Status.RequirementStatus {
		if IsExcess(r) && r.UUID == string(account) {
			return strings.TrimPrefix(r.Message, AccountNotCovering)
		}
	}
	return ""
}
