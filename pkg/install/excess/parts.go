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
		if n++; n > maxParts || rbac.TooLarge(part) {
			return out, false
		}
		out = append(out, set.Missing(part)...)
	}
	return out, true
}

// parts splits rules into lists that are not too large for one query. A rule that represents rules that are not kept cannot be split
// (rbac.KeptRules), nor can one whose words are too long: it is too large on its own.
func parts(rules []rbacv1.PolicyRule) iter.Seq[[]rbacv1.PolicyRule] {
	return func(yield func([]rbacv1.PolicyRule) bool) {
		var part []rbacv1.PolicyRule
		size, length := 0, 0
		for _, rule := range rules {
			for piece := range rbac.Halve(rule, fits) {
				n, text := rbac.Size([]rbacv1.PolicyRule{piece}), rbac.Length([]rbacv1.PolicyRule{piece})
				if len(part) > 0 && (size+n > rbac.MaxAtoms || length+text > rbac.MaxLength) {
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

func fits(rule rbacv1.PolicyRule) bool { return !rbac.TooLarge([]rbacv1.PolicyRule{rule}) }
