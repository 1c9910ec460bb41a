package preflight

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

// WarnAboutExistingRoles sets InUse to warnings about existing roles that have the same name as a role in the grant
// but different rules. Subjects that are already bound to such a role would receive the permissions that are granted
// to the account. Roles that cannot be read are not reported.
func (r *Report) WarnAboutExistingRoles(rulesOf rbac.RoleRules) {
	r.InUse = nil
	for _, part := range r.parts(r.grantable()) {
		kind, object := "Role", "Role "+part.namespace+"/"+part.name
		if part.namespace == rbac.ClusterScope {
			kind, object = "ClusterRole", "ClusterRole "+part.name
		}
		rules, err := rulesOf(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: part.name}, part.namespace)
		switch {
		case err != nil: // usually a NotFound error
		case len(rbac.Missing(part.rules, rules)) > 0 || len(rbac.Missing(rules, part.rules)) > 0:
			r.InUse = append(r.InUse, message.Sprintf("WARNING: %s exists with different rules, and other subjects may be bound to it. "+
				"Delete it and its bindings before you apply the grant.", object))
		}
	}
}

// part is one role of the grant. The role's binding has the same name.
type part struct {
	name, namespace string
	rules           []rbacv1.PolicyRule
}

// parts returns the roles that grant the rules of the scopes.
func (r Report) parts(scopes []Scope) []part {
	var out []part
	for _, s := range scopes {
		base := r.grantName(s)
		for i, rules := range portions(s.Rules) {
			name := base
			if i > 0 {
				name = fmt.Sprintf("%s-%d", base, i+1)
			}
			out = append(out, part{name, s.Namespace, rules})
		}
	}
	return out
}
