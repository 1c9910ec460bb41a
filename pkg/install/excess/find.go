package excess

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Object is a role or binding that grants permissions that the account neither has nor is allowed to grant, or a webhook configuration
// that intercepts what the account is not allowed to read and write.
type Object struct {
	Object client.Object
	// Scope is the namespace in which the permissions are granted, or rbac.ClusterScope.
	Scope string
	// Missing are the granted permissions that the account does not have. Alternative is the permission, escalate or bind
	// on the role, that would allow the account to grant them.
	Missing     []rbacv1.PolicyRule
	Alternative rbacv1.PolicyRule
	// Intercepts describes the webhooks of a configuration that intercept too much, and where; it is empty for roles and bindings.
	Intercepts []string
	// Unevaluated is true if the object grants so many combinations that Remit has not compared all of them.
	Unevaluated bool
}

// Account describes the account that bounds an install.
type Account struct {
	// RulesOf returns the rules of a role.
	RulesOf rbac.RoleRules
	// Granted returns the account's permissions in a scope, without those that it has only through bindings that Remit has
	// created. It may omit permissions, because Confirm asks the API server before anything is removed.
	Granted func(namespace string) rbac.Permissions
	// Held is like Granted, but includes the bindings that Remit has created. If it is nil, there are none.
	Held func(namespace string) rbac.Permissions
	// Includes reports whether permissions certainly include a ClusterRole, as rbac.Listers.Includes does. It is nil if this is unknown.
	Includes func(granted rbac.Permissions, clusterRole string) bool
}

// held returns all of the account's permissions in a scope.
func (a Account) held(namespace string) rbac.Permissions {
	if a.Held == nil {
		return a.Granted(namespace)
	}
	return a.Held(namespace)
}

// Find returns the roles and bindings that exceed the account, bindings first. A binding to a role that does not exist
// grants nothing. A role grants nothing either without a binding, so Find returns only roles that were rendered from
// the permissions of a ClusterServiceVersion, and none to which another of the bindings refers. ClusterRoles that others
// aggregate, such as those for the APIs of an operator, are granted in the whole cluster.
func (a Account) Find(objs []client.Object) ([]Object, error) {
	var bindings, roles []Object
	covered := map[string]bool{} // the roles of bindings that do not exceed the account
	inOrder := byScope(objs)
	for _, obj := range inOrder {
		binding := bindingOf(obj)
		if binding == nil {
			continue
		}
		grant, err := rbac.BindingGrant(binding, a.RulesOf)
		if err != nil {
			return nil, fmt.Errorf("evaluate %s: %w", apply.Describe(obj), err)
		}
		if o, exceeds := a.check(obj, grant); exceeds {
			bindings = append(bindings, o)
			continue
		}
		covered[keyOf(binding.RoleRef.Kind, binding.Namespace, binding.RoleRef.Name)] = true
	}
	for _, obj := range inOrder {
		role, kind := roleOf(obj)
		if role == nil || !isAggregated(role) && (role.Labels[names.LabelPermissionsHash] == "" || covered[keyOf(kind, role.Namespace, role.Name)]) {
			continue
		}
		if o, exceeds := a.check(obj, rbac.RoleGrant(role, nil)); exceeds {
			roles = append(roles, o)
		}
	}
	return append(inOrderOf(objs, bindings), inOrderOf(objs, roles)...), nil
}

// byScope returns the objects of each namespace one after the other, because the account's permissions are kept only for few
// namespaces at a time (rbac.Recent).
func byScope(objs []client.Object) []client.Object {
	out := slices.Clone(objs)
	slices.SortStableFunc(out, func(x, y client.Object) int { return strings.Compare(x.GetNamespace(), y.GetNamespace()) })
	return out
}

// inOrderOf returns what was found in the order of the objects.
func inOrderOf(objs []client.Object, found []Object) []Object {
	at := make(map[client.Object]int, len(objs))
	for i, obj := range objs {
		at[obj] = i
	}
	slices.SortStableFunc(found, func(x, y Object) int { return at[x.Object] - at[y.Object] })
	return found
}

// maxRemoved is the maximum number of objects that one reconcile removes. An install can have two for each of a thousand
// target namespaces.
const maxRemoved = 100

// Batch returns the objects to remove first: those that the account may delete according to RBAC, and at last those that are
// already being deleted, because finalizers can keep any number of them. Otherwise, the order remains the same. If there are more objects,
// half of them are other ones each time, because there can be any number that are not removed.
func (a Account) Batch(found []Object) []Object {
	objs := make([]client.Object, 0, len(found))
	for _, o := range found {
		objs = append(objs, o.Object)
	}
	rank := make(map[client.Object]int, len(objs))
	for _, obj := range byScope(objs) {
		switch {
		case obj.GetDeletionTimestamp() != nil:
			rank[obj] = 2
		case !a.mayDelete(obj):
			rank[obj] = 1
		}
	}
	out := slices.Clone(found)
	slices.SortStableFunc(out, func(x, y Object) int { return rank[x.Object] - rank[y.Object] })
	if len(out) <= maxRemoved {
		return out
	}
	const first = maxRemoved / 2
	others := inAnyOrder(len(out) - first)[:maxRemoved-first]
	slices.Sort(others)
	for i, at := range others {
		out[first+i] = out[first+at]
	}
	return out[:maxRemoved]
}

// inAnyOrder returns the numbers below n in a random order. An order that users know or determine would let them hide an excess.
func inAnyOrder(n int) []int {
	return rand.Perm(n) //nolint:gosec // G404: the generator is seeded at random, and each attempt has another order.
}

func (a Account) mayDelete(obj client.Object) bool {
	resource := strings.ToLower(apply.KindOf(obj)) + "s"
	group := rbacv1.GroupName
	if strings.HasSuffix(resource, "webhookconfigurations") {
		group = admissionregistrationv1.GroupName
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{obj.GetName()}, Verbs: []string{"delete"}}
	return a.held(obj.GetNamespace()).Set().Covers([]rbacv1.PolicyRule{rule})
}

// check compares a grant with the account's permissions. A binding to a ClusterRole that the account has, too, grants nothing that the
// account does not have, however many rules others add to it (docs/adr/0105). Otherwise, rules that cannot be evaluated because they are too large exceed
// the account, because otherwise a user who may patch a role could keep it by adding rules; Remit itself creates no such
// role. This is about the rules of the operator's role: if the account has too many, Granted omits some, and Confirm asks
// the API server about what is then missing.
func (a Account) check(obj client.Object, grant rbac.Grant) (Object, bool) {
	tooLarge := rbac.TooLarge(grant.Rules)
	if grant.Invalid != nil && !tooLarge || grant.Unresolved || len(grant.Rules) == 0 {
		return Object{}, false
	}
	o := Object{Object: obj, Scope: grant.Namespace, Alternative: grant.Alternative}
	granted := a.Granted(grant.Namespace)
	if grant.ClusterRole != "" && a.Includes != nil && a.Includes(granted, grant.ClusterRole) {
		return Object{}, false
	}
	if tooLarge {
		lacks, evaluated := missing(granted, grant.Rules)
		o.Missing, o.Unevaluated = lacks, !evaluated
		return o, (len(lacks) > 0 || !evaluated) && !granted.Set().Covers([]rbacv1.PolicyRule{grant.Alternative})
	}
	verdict := grant.Check(granted)
	o.Missing = verdict.Missing
	return o, verdict.Invalid == nil && !verdict.Covered()
}

// isAggregated reports whether the ClusterRoles admin, edit or view include a ClusterRole.
func isAggregated(role *rbacv1.ClusterRole) bool {
	for label := range role.Labels {
		if strings.HasPrefix(label, rbac.AggregateTo) {
			return true
		}
	}
	return false
}

const kindClusterRole = "ClusterRole"

func keyOf(kind, namespace, name string) string {
	if kind == kindClusterRole {
		namespace = rbac.ClusterScope
	}
	return kind + " " + namespace + "/" + name
}

// bindingOf returns a RoleBinding or ClusterRoleBinding as a ClusterRoleBinding, which has the same fields, and nil for
// objects of other kinds.
func bindingOf(obj client.Object) *rbacv1.ClusterRoleBinding {
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		return &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, Subjects: b.Subjects, RoleRef: b.RoleRef}
	case *rbacv1.ClusterRoleBinding:
		return b
	}
	return nil
}

// roleOf returns a Role or ClusterRole as a ClusterRole, which has the same fields, and its kind. It returns nil for
// objects of other kinds.
func roleOf(obj client.Object) (role *rbacv1.ClusterRole, kind string) {
	switch r := obj.(type) {
	case *rbacv1.Role:
		return &rbacv1.ClusterRole{ObjectMeta: r.ObjectMeta, Rules: r.Rules}, "Role"
	case *rbacv1.ClusterRole:
		return r, kindClusterRole
	}
	return nil, ""
}
