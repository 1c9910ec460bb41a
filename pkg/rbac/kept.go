package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// MaxRoleRules is the number of different rules of one role that Remit evaluates, and keeps in memory. A bundle may not
	// have more.
	MaxRoleRules = 10_000
	// maxUnchanged is the number of rules, or of subjects, up to which an object takes too little memory to be changed.
	maxUnchanged = 100
	// unknown is the verb, API group and resource of the rule that represents the rules of a role that are not kept. It is no
	// valid verb, so it grants nothing.
	unknown = "remit.dev/too-many-rules"
)

// KeptRules returns what a cache keeps of the rules of a role: each rule once. Instead of more than MaxRoleRules rules or
// MaxValues values, which cannot be evaluated, it returns one rule that counts as too many: whoever is bound to a Role has
// unknown permissions (LimitError) and, to a ClusterRole, at least its others (Permissions.NotKept). The role itself is TooLarge. Neither
// coverage nor excess is computed from such rules.
func KeptRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if len(rules) > maxUnchanged {
		rules = unique(rules, key)
	}
	if len(rules) > MaxRoleRules || CountValues(rules) > MaxValues {
		return []rbacv1.PolicyRule{{Verbs: []string{unknown}, APIGroups: []string{unknown}, Resources: []string{unknown}}}
	}
	return rules
}

// KeptSubjects returns what a cache keeps of the subjects of a binding: each subject once. None is omitted, because that would
// hide a grant.
func KeptSubjects(subjects []rbacv1.Subject) []rbacv1.Subject {
	if len(subjects) <= maxUnchanged {
		return subjects
	}
	return unique(subjects, func(s rbacv1.Subject) rbacv1.Subject { return s })
}

// isUnknown reports whether a rule represents rules that are not kept. A user who writes such a rule makes the permissions
// of its subjects unknown, as a role with too many rules does.
func isUnknown(r *rbacv1.PolicyRule) bool { return len(r.Verbs) == 1 && r.Verbs[0] == unknown }

// unique returns the first of equal entries, in a list of its own.
func unique[T any, K comparable](list []T, keyOf func(T) K) []T {
	seen := make(map[K]bool)
	var out []T
	for i := range list {
		if k := keyOf(list[i]); !seen[k] {
			seen[k] = true
			out = append(out, list[i])
		}
	}
	return slices.Clip(out)
}
