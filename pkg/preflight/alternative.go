package preflight

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
)

// Alternative returns the report with the verbs escalate and bind on roles, by name, in place of the missing rules that these roles
// grant to others. ok is false if no missing rule can be replaced. With the verb escalate, the identity can write any rules into the
// roles.
func (r Report) Alternative() (alternative Report, ok bool) {
	alternative = Report{Identity: r.Identity, Findings: make([]Finding, 0, len(r.Findings))}
	for _, f := range r.Findings {
		if f.Granted && !f.Hidden && len(f.Alternatives) > 0 {
			f.Missing, ok = []rbacv1.PolicyRule{f.Alternatives[0]}, true
		}
		alternative.Findings = append(alternative.Findings, f)
	}
	return alternative, ok
}

// ManifestsWithin returns Manifests if they are not longer than limit bytes; otherwise, ok is false.
func (r Report) ManifestsWithin(limit int) (manifests message.Text, ok bool) {
	text, left := r.manifests(r.grantable(), limit)
	return text, left == 0 && len(text) > 0
}
