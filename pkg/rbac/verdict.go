package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// ErrTooLarge reports that rules expand to more than MaxAtoms combinations. They are not evaluated.
var ErrTooLarge = fmt.Errorf("the rules expand to more than %d combinations", MaxAtoms)

// Verdict predicts the API server's checks for rules that a subject wants to grant or needs.
type Verdict struct {
	// Invalid is the reason that the API server would reject the rules for every user, or ErrTooLarge. Missing is then
	// meaningless.
	Invalid error
	// Missing are the rules that the subject does not have, compacted and sorted. They can be pasted into a Role.
	Missing []rbacv1.PolicyRule
	// Via is the verb, escalate or bind, that replaces the missing rules, or "". A subject with such a verb is
	// unbounded in its scope.
	Via string
	// Unresolved is true for a binding whose role does not exist.
	Unresolved bool
}

// Covered reports whether the API server's check would pass.
func (v Verdict) Covered() bool {
	return v.Invalid == nil && (v.Via != "" || len(v.Missing) == 0)
}

// Check reports whether the subject has the wanted rules. It does not check whether they are valid in the scope; see
// Validate.
func (h Permissions) Check(wanted []rbacv1.PolicyRule) Verdict {
	if TooLarge(wanted) {
		return Verdict{Invalid: ErrTooLarge}
	}
	return Verdict{Missing: h.Set().Missing(wanted)}
}
