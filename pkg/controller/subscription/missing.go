package subscription

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	// maxMissing is the maximum size in bytes of the permissions in a message.
	maxMissing = 700
	// maxMissingLines is the number of lines of permissions after which no further scopes are described.
	maxMissingLines = 1_000
)

// missing describes the permissions of a resolution that the account is still missing, or returns "". It is reported
// while no plan exists, for example because a quota prevents its creation: the report of a plan replaces it. If the
// account may grant permissions that it does not have, nothing is missing.
func (w *world) missing(r resolution) string {
	var lines []string
	for _, e := range r.excess {
		granted := w.tracked.LowerBound(rbac.ServiceAccount(w.input.Account.Namespace, w.input.Account.Name), e.Namespace)
		verdict := granted.Check(e.Missing)
		if verdict.Invalid != nil || granted.Set().Covers([]rbacv1.PolicyRule{grantsAnything(e.Namespace)}) {
			continue
		}
		if lines = append(lines, rbac.Lines(e.Namespace, verdict.Missing, maxMissing/2)...); len(lines) > maxMissingLines {
			break
		}
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	return fmt.Sprintf("ServiceAccount %s is missing permissions that %s requests: %s. The InstallPlan, which does not exist yet, will list everything that is missing, with the RBAC to apply",
		w.input.Account.Key(), strings.Join(r.plan.CSVNames(), ", "), status.Lines(slices.Compact(lines), maxMissing))
}

// grantsAnything returns the permission to grant permissions that the account does not have in a scope.
func grantsAnything(namespace string) rbacv1.PolicyRule {
	resource := "roles"
	if namespace == rbac.ClusterScope {
		resource = "clusterroles"
	}
	return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{resource}, Verbs: []string{"escalate", "bind"}}
}
