package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// AggregateTo begins the labels with which the default ClusterRoles select those that they aggregate. The rest of the key is the name of
// the ClusterRole that aggregates.
const AggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// Includes reports whether a subject with these permissions certainly has all rules of a ClusterRole in their scope, without comparing
// any rules. It is for ClusterRoles with too many rules: others may have added these. The subject is bound to the ClusterRole, or may do
// everything, or is bound to a ClusterRole whose rules are not kept either and which aggregates it, as admin aggregates edit, and edit
// view. Only a user with all permissions may write a ClusterRole that aggregates, so no other can claim this with labels.
func (l Listers) Includes(h Permissions, role string) bool {
	all := everything()
	if h.Namespace != ClusterScope {
		all = all[:1] // a RoleBinding grants no URLs
	}
	if h.bound[role] || h.Set().Covers(all) {
		return true
	}
	for range maxAggregations {
		if role = l.aggregating(role); role == "" {
			return false
		}
		if slices.Contains(h.NotKept, role) {
			return true
		}
	}
	return false
}

// maxAggregations is the number of ClusterRoles that aggregate each other: admin, edit and view need two.
const maxAggregations = 3

// aggregating returns the name of a default ClusterRole that aggregates a ClusterRole that itself aggregates others, or "".
func (l Listers) aggregating(name string) string {
	role, err := l.ClusterRoles.Get(name)
	if err != nil || !aggregates(role) {
		return ""
	}
	for _, into := range []string{"edit", "admin"} { // the defaults
		if role.Labels[AggregateTo+into] != "true" {
			continue
		}
		if larger, err := l.ClusterRoles.Get(into); err == nil && selects(larger, role) {
			return into
		}
	}
	return ""
}

// selects reports whether a ClusterRole aggregates another one.
func selects(larger, role *rbacv1.ClusterRole) bool {
	return aggregates(larger) && slices.ContainsFunc(larger.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		return err == nil && selector.Matches(labels.Set(role.Labels))
	})
}
