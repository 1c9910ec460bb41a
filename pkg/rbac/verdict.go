package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// ErrTooLarge reports that rules expand to more than MaxAtoms combinations. They are not evaluated.
var ErrTooLarge = fmt.Errorf("the rules expand to more than %d combinations, or to combinations with more than %d MiB of text", MaxAtoms, maxAtomBytes>>20)

// Verdict predicts the result of the API server's checks of rules that a subject needs or wants to grant.
type Verdict struct {
	// Invalid is the reason why the API server would reject the rules from every user, or ErrTooLarge. If it is set,
	// Missing is meaningless.
	Invalid error
	// Missing are the rules that the subject does not have, compacted and sorted. They can be pasted into a Role.
	Missing []rbacv1.PolicyRule
	// Via is the verb, escalate or bind, that makes the missing rules unnecessary, or "". With such a verb, the subject
	// can grant more than its own permissions in the scope.
	Via string
	// Unresolved is true for a binding whose role does not exist.
	Unresolved bool
}

// Covered reports whether the API server's check would pass.
func (v Verdict) Covered() bool {
	return v.Invalid == nil && (v.Via != "" || len(v.Missing) == 0)
}

// Check determines which of the wanted rules the subject does not have. It does not check whether the rules are valid
// in the scope; see Validate.
func (h Permissions) Check(wanted []rbacv1.PolicyRule) Verdict {
	if TooLarge(wanted) {
		return Verdict{Invalid: ErrTooLarge}
	}
	return Verdict{Missing: h.Set().Missing(wanted)}
}
