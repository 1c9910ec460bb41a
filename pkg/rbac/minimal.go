package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Minimal is Compact without what is said of names although the other rules say it of all names. Granting
// the result is granting the rules.
func Minimal(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var named, unnamed []rbacv1.PolicyRule
	for _, r := range rules {
		if len(r.ResourceNames) > 0 {
			named = append(named, r)
		} else {
			unnamed = append(unnamed, r)
		}
	}
	return Compact(slices.Concat(unnamed, Missing(unnamed, named)))
}
