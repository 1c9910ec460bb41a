package rbac

import (
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// ErrTooLarge says that rules expand to more than MaxAtoms combinations. Nothing is said of them.
var ErrTooLarge = fmt.Errorf("the rules expand to more than %d combinations", MaxAtoms)

// Verdict is what the API server's checks would say of rules that somebody wants to grant or to have.
type Verdict struct {
	// Invalid says why the API server would refuse the rules whoever asks, or why they were not looked
	// at (ErrTooLarge); Missing is then empty and says nothing.
	Invalid error
	// Missing are the rules that are not held, compacted and sorted: they can be pasted into a Role.
	Missing []rbacv1.PolicyRule
	// Via is the verb, escalate or bind, that makes the missing rules unnecessary; "" where none does.
	// Who holds such a verb has no bound in its scope.
	Via string
	// Unknown is set where rules are missing and a lookup failed: they may be held all the same.
	Unknown bool
	// Unresolved is set for a binding whose role does not exist.
	Unresolved bool
	// Notes are for people: bindings that give nothing, because their role does not exist.
	Notes []string
}

// Covered says whether the API server's check would pass.
func (v Verdict) Covered() bool {
	return v.Invalid == nil && (v.Via != "" || len(v.Missing) == 0)
}

// Check says whether rules are held. It does not ask whether they can be held in such a scope: that is
// Validate, for rules that are to be written.
func (h Permissions) Check(wanted []rbacv1.PolicyRule) Verdict {
	if TooLarge(wanted) {
		return Verdict{Invalid: ErrTooLarge}
	}
	v := Verdict{Missing: h.Set().Missing(wanted)}
	if len(v.Missing) == 0 {
		return v
	}
	v.Unknown = errors.Join(h.ReadErrors...) != nil
	for _, d := range h.Dangling {
		v.Notes = append(v.Notes, d.String())
	}
	return v
}
