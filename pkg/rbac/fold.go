package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// folded removes rules that another rule covers, and merges rules that differ in one field. It compares whole rules, so
// the time depends on the length of the rules, not on the number of atoms that they expand to.
func folded(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return sorted(notCovered(joined(notCovered(joined(plain(rules))))))
}

// plain splits rules so that each has either resources or URLs, sorts their lists, and drops rules that grant nothing.
func plain(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		if len(r.Verbs) == 0 {
			continue
		}
		if len(r.APIGroups) > 0 && len(r.Resources) > 0 {
			out = append(out, rbacv1.PolicyRule{
				Verbs: set(r.Verbs), APIGroups: set(r.APIGroups), Resources: set(r.Resources), ResourceNames: set(r.ResourceNames),
			})
		}
		if len(r.NonResourceURLs) > 0 {
			out = append(out, rbacv1.PolicyRule{Verbs: set(r.Verbs), NonResourceURLs: set(r.NonResourceURLs)})
		}
	}
	return out
}

func set(values []string) []string {
	out := slices.Clone(values)
	slices.Sort(out)
	return slices.Compact(out)
}

// joined merges plain rules that differ in only one field.
func joined(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for _, field := range fields() {
		rules = merge(rules, field)
	}
	for i := range rules {
		rules[i] = widest(rules[i])
	}
	return rules
}

// notCovered drops each plain rule that is covered by another rule that has not been dropped.
func notCovered(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	c := coverageOf(rules)
	stay := &posting{bits: make([]uint64, c.words)}
	for i := range rules {
		stay.add(i)
		stay.bits[i/64] |= 1 << (i % 64)
	}
	var out []rbacv1.PolicyRule
	for i, r := range rules {
		covered := false
		c.coveringAll(r, func(by int) bool {
			covered = by != i && stay.has(int32(by)) //nolint:gosec // a set of rules has at most maxValues of them
			return !covered
		}, side{stay})
		if covered {
			stay.bits[i/64] &^= 1 << (i % 64)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Uncovered is like Missing, but has no size limit: if the wanted rules expand to more than MaxAtoms, it returns those
// that no single rule of the set covers.
func (s Set) Uncovered(wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if !TooLarge(wanted) {
		return s.Missing(wanted)
	}
	return slices.DeleteFunc(plain(wanted), func(r rbacv1.PolicyRule) (covered bool) {
		s.coverage.coveringAll(r, func(int) bool {
			covered = true
			return false
		})
		return covered
	})
}
