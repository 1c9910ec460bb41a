package preflight

import (
	"math"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// MaxGrantObject is the approximate maximum size, in bytes, of one Role of the grant. Larger grants are split into
// several Roles, because kubectl apply stores a copy of the object in an annotation, and annotations are limited to
// 256 KiB.
const MaxGrantObject = 128 * 1024

// Manifests returns YAML that grants the missing permissions: a Role and a RoleBinding for each namespace, and a
// ClusterRole and a ClusterRoleBinding for the whole cluster. Unknown permissions are included, so that a single grant
// is sufficient. The result is empty if nothing is missing.
func (r Report) Manifests() []byte { return []byte(r.Grant()) }

// Grant returns the same documents as Manifests.
func (r Report) Grant() message.Text {
	text, _ := r.manifests(r.grantable(), math.MaxInt)
	return text
}

// Objects returns the objects of Manifests, each role before its binding.
func (r Report) Objects() []client.Object {
	var out []client.Object
	for _, part := range r.parts(r.grantable()) {
		out = append(out, r.objects(part)...)
	}
	return out
}

func (r Report) objects(p part) []client.Object {
	role, binding := rbac.RoleAndBinding(metav1.ObjectMeta{Name: p.name, Namespace: p.namespace}, p.rules, r.Identity.Subject())
	return []client.Object{role, binding}
}

// grantable returns the missing and the unknown rules, or nil if none are missing.
func (r Report) grantable() []Scope {
	if r.Empty() {
		return nil
	}
	return scopesOf(slices.Concat(r.Findings, r.Unknown))
}

// manifests returns YAML that grants the rules of the scopes, with at most limit bytes. left is the number of rules
// that did not fit.
func (r Report) manifests(scopes []Scope, limit int) (documents message.Text, left int) {
	var out []message.Text
	for _, part := range r.parts(scopes) {
		text, err := message.Documents(r.objects(part)...)
		if err != nil || len(text) > limit {
			left += len(part.rules)
			continue
		}
		limit -= len(text)
		out = append(out, text)
	}
	return message.Lines(out...), left
}

// portions distributes rules so that a Role with one portion is not larger than MaxGrantObject.
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

// splitLong splits each rule that is too long for one Role.
func splitLong(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return rbac.Split(rules, MaxGrantObject/2)
}

// grantName returns the name of the roles and bindings of a grant. The name contains the identity, because the policies
// remit-grant-bindings and remit-extension-grant-bindings allow only that identity to be bound to these roles. It also
// contains a hash of the rules, so that the grant of a later report neither revokes an earlier grant nor changes the
// rules of an existing role, which the policies remit-grants and remit-extension-grants forbid (docs/adr/0024).
func (r Report) grantName(s Scope) string {
	lines := linesOf(s.Rules)
	hash := ownerutil.Hash(append(lines, s.Namespace, r.Identity.ID())...)[:8]
	if r.Identity.IsSynthetic() {
		return extensionGrant + r.Identity.Extension + ":" + hash
	}
	return "remit-grant-" + r.Identity.Account.Namespace + ":" + r.Identity.Account.Name + ":" + hash
}

// extensionGrant is the prefix of the names of grants to synthetic users.
const extensionGrant = "remit-extension-grant-"

// ExtensionOfGrant returns the name of the ClusterExtension whose synthetic user a role was created for, according to its
// name. ok is false if the role is not part of a grant to such a user.
func ExtensionOfGrant(role string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(role, extensionGrant)
	name, _, hashed := strings.Cut(rest, ":")
	return name, ok && hashed && name != ""
}
