package rbac

import (
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// CanImpersonate reports whether a subject has the permissions to impersonate a synthetic user, in any form. The API
// server might not support all forms.
func (l Listers) CanImpersonate(s Subject, identity scoped.Identity) (bool, error) {
	rules, err := l.EffectiveRules(s, ClusterScope)
	if err != nil {
		return false, err
	}
	set := NewSet(rules)
	return set.Covers(scoped.ImpersonationRules(identity, scoped.ImpersonationLegacy)) ||
		set.Covers(scoped.ImpersonationRules(identity, scoped.ImpersonationConstrained)), nil
}
