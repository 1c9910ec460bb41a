package excess

import (
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

// maxParts is the maximum number of parts, each of at most rbac.MaxAtoms combinations, into which the rules of one grant
// are split to evaluate them.
const maxParts = 8

// missing returns the permissions that the account does not have. It evaluates in parts what is too large for one query.
// evaluated is false if rules remain that were not evaluated.
func missing(granted rbac.Permissions, rules []rbacv1.PolicyRule) (out []rbacv1.PolicyRule, evaluated bool) {
	set, n := granted.Set(), 0
	for part := range parts(rules) {
		if n++; n > maxParts {
			return out, false
		}
		out = append(out, set.Missing(part)...)
	}
	return out, true
}

// parts splits rules into lists that are not too large for one query.
func parts(rules []rbacv1.PolicyRule) iter.Seq[[]rbacv1.PolicyRule] {
	return func(yield func([]rbacv1.PolicyRule) bool) {
		var part []rbacv1.PolicyRule
		size, length := 0, 0
		for _, rule := range rules {
			for piece := range pieces(rule) {
				n, text := rbac.Size([]rbacv1.PolicyRule{piece}), rbac.Length([]rbacv1.PolicyRule{piece})
				if size+n > rbac.MaxAtoms || length+text > rbac.MaxLength {
					if !yield(part) {
						return
					}
					part, size, length = nil, 0, 0
				}
				part, size, length = append(part, piece), size+n, length+text
			}
		}
		if len(part) > 0 {
			yield(part)
		}
	}
}

// pieces halves a rule at its longest list until no piece is too large for one query.
func pieces(rule rbacv1.PolicyRule) iter.Seq[rbacv1.PolicyRule] {
	return func(yield func(rbacv1.PolicyRule) bool) { halve(rule, yield) }
}

func halve(rule rbacv1.PolicyRule, yield func(rbacv1.PolicyRule) bool) bool {
	if !rbac.TooLarge([]rbacv1.PolicyRule{rule}) {
		return yield(rule)
	}
	longest := &rule.Resources
	for _, list := range []*[]string{&rule.ResourceNames, &rule.APIGroups, &rule.NonResourceURLs, &rule.Verbs} {
		if len(*list) > len(*longest) {
			longest = list
		}
	}
	all := *longest
	for _, half := range [][]string{all[:len(all)/2], all[len(all)/2:]} {
		*longest = half
		if !halve(rule, yield) {
			return false
		}
	}
	return true
}
