package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// folded leaves out the rules that another one covers, and joins those that differ in one field. It compares rules as
// wholes, so that it takes time in proportion to what is written in them (and a few words for every 64 rules), not to
// what they expand to.
func folded(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return sorted(notCovered(joined(notCovered(joined(plain(rules))))))
}

// plain splits rules so that each is on resources or on URLs, sorts their lists, and leaves out rules that say nothing.
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

// joined merges plain rules that are alike in all fields but one.
func joined(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for _, field := range fields() {
		rules = merge(rules, field)
	}
	for i := range rules {
		rules[i] = widest(rules[i])
	}
	return rules
}

// notCovered leaves out each plain rule that one of those that stay covers.
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
			covered = by != i && stay.has(int32(by))
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

// Uncovered is Missing whatever the size: of more than MaxAtoms, the rules that no rule of the set covers as a whole.
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
