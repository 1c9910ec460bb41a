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
	for _, o := range found {
		first.Findings = append(first.Findings, findingOf(o, 1))
	}
	first = c.Confirm(ctx, asker+" first", first)
	denied := causes(first.Findings)
	for _, o := range found {
		if !denied[causeOf(o)] && len(first.Unknown) == 0 {
			all.Findings = append(all.Findings, findingOf(o, rbac.MaxAtoms))
		}
	}
	all = c.Confirm(ctx, asker+" all", all)
	for _, report := range []Report{first, all} {
		if len(report.Unknown) > 0 {
			return nil, Undecided(report)
		}
	}
	more := causes(all.Findings)
	return slices.DeleteFunc(slices.Clone(found), func(o excess.Object) bool { return !denied[causeOf(o)] && !more[causeOf(o)] }), nil
}

// findingOf returns a finding about at most limit missing permissions of an object. If they were not all evaluated, the
// alternative decides.
func findingOf(o excess.Object, limit int) Finding {
	f := Finding{Namespace: o.Scope, Alternatives: []rbacv1.PolicyRule{o.Alternative}, Cause: causeOf(o)}
	if !o.Unevaluated {
		atoms := rbac.Atoms(o.Missing)
		f.Missing = atoms[:min(len(atoms), limit)]
	}
	return f
}

func causeOf(o excess.Object) string { return "write " + apply.Describe(o.Object) }

func causes(findings []Finding) map[string]bool {
	out := map[string]bool{}
	for _, f := range findings {
		out[f.Cause] = true
	}
	return out
}
