package preflight

import (
	"bytes"
	"math"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// MaxGrantObject is the approximate limit, in bytes, of one Role of the grant: kubectl apply keeps a copy of what it
// sends in an annotation, and annotations are limited to 256 KiB. Larger grants are split into several Roles.
const MaxGrantObject = 128 * 1024

// Manifests returns YAML that grants exactly what is missing: a Role and a RoleBinding for each namespace, a
// ClusterRole and a ClusterRoleBinding for the whole cluster. Unknown permissions are included, so that a single grant
// is sufficient.
func (r Report) Manifests() []byte {
	text, _ := r.manifests(r.grantable(), math.MaxInt)
	return text
}

// grantable returns the missing rules and, if there are any, the unknown ones.
func (r Report) grantable() []Scope {
	if r.Empty() {
		return nil
	}
	return scopesOf(slices.Concat(r.Findings, r.Unknown))
}

// manifests renders a grant of the scopes' rules in at most limit bytes; left is the number of rules that did not fit.
func (r Report) manifests(scopes []Scope, limit int) (text []byte, left int) {
	var out bytes.Buffer
	for _, part := range r.parts(scopes) {
		var text bytes.Buffer
		role, binding := rbac.RoleAndBinding(metav1.ObjectMeta{Name: part.name, Namespace: part.namespace}, part.rules,
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: r.Account.Namespace, Name: r.Account.Name})
		for _, obj := range []runtime.Object{role, binding} {
			text.WriteString("---\n")
			text.Write(encode(obj))
		}
		if out.Len()+text.Len() > limit {
			left += len(part.rules)
			continue
		}
		out.Write(text.Bytes())
	}
	return out.Bytes(), left
}

// portions splits rules so that each Role stays below MaxGrantObject.
func portions(rules []rbacv1.PolicyRule) [][]rbacv1.PolicyRule {
	var out [][]rbacv1.PolicyRule
	size := MaxGrantObject
	for _, rule := range splitLong(rules) {
		n := len(rbac.Line(rule))
		if size+n > MaxGrantObject {
			out, size = append(out, nil), 0
		}
		size += n
		out[len(out)-1] = append(out[len(out)-1], rule)
	}
	return out
}

// splitLong splits rules that are too long for one Role.
func splitLong(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return rbac.Split(rules, MaxGrantObject/2)
}

// grantName returns the name of the roles and bindings of a grant. It contains the account, because the policy
// remit-grant-bindings allows only that account to be bound to them, and a hash of the rules: a second report never
// takes back the first, and the rules of a role, which the policy remit-grants does not allow to change, stay the same
// (docs/adr/0024).
func (r Report) grantName(s Scope) string {
	lines := linesOf(s.Rules)
	return "remit-grant-" + r.Account.Namespace + ":" + r.Account.Name + ":" + ownerutil.Hash(append(lines, s.Namespace, r.Account.String())...)[:8]
}

func encode(obj runtime.Object) []byte {
	text, err := yaml.Marshal(obj)
	if err != nil {
		return []byte("# " + err.Error() + "\n")
	}
	return text
}
