package preflight

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Exceeding returns those of the objects for which the API server confirms that they exceed the identity, as package excess
// does before it removes them: it denies the identity the alternative, and one of the missing permissions. Usually, it denies
// the first one, so the others are asked about only if it does not. The answers are cached for the asker as by Confirm.
func (c *Confirmer) Exceeding(ctx context.Context, asker string, identity scoped.Identity, found []excess.Object) ([]excess.Object, error) {
	first, all := Report{Identity: identity}, Report{Identity: identity}
	whole := map[string][]rbacv1.PolicyRule{}
	for _, o := range found {
		f := Finding{Namespace: o.Scope, Alternatives: []rbacv1.PolicyRule{o.Alternative}, Cause: causeOf(o)}
		if !o.Unevaluated { // otherwise, the alternative decides
			whole[f.Cause] = rbac.Atoms(o.Missing)
			f.Missing = whole[f.Cause][:min(len(whole[f.Cause]), 1)]
		}
		first.Findings = append(first.Findings, f)
	}
	first = c.Confirm(ctx, asker+" first", first)
	for _, f := range first.Allowed {
		if rbac.Line(f.Missing[0]) != rbac.Line(f.Alternatives[0]) {
			all.Findings = append(all.Findings, Finding{Namespace: f.Namespace, Missing: whole[f.Cause], Cause: f.Cause})
		}
	}
	all = c.Confirm(ctx, asker+" all", all)
	denied := map[string]bool{}
	for _, report := range []Report{first, all} {
		if len(report.Unknown) > 0 {
			return nil, Undecided(report)
		}
		for _, f := range report.Findings {
			denied[f.Cause] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(o excess.Object) bool { return !denied[causeOf(o)] }), nil
}

func causeOf(o excess.Object) string { return "write " + apply.Describe(o.Object) }
