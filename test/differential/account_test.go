package differential

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	accountName  = "acct"
	fieldManager = "differential"
	// patience is long enough for a slow machine.
	patience = 2 * time.Minute
)

// account is a ServiceAccount with its own part of the cluster: two namespaces, and cluster-scoped objects, most of
// whose names begin with its ID.
type account struct {
	t           *testing.T
	d           dice
	id          string
	home, other string
	admin, self client.Client
	// rules are all permissions that are granted in this part of the cluster.
	rules []rbacv1.PolicyRule
	// label selects the ClusterRoles that an aggregated ClusterRole combines.
	label   map[string]string
	gathers bool
	markers int
}

// newAccount creates the ServiceAccount, lets it write roles and bindings, and returns it with a client for its token.
func (s server) newAccount(t *testing.T, id, home, other string) *account {
	t.Helper()
	a := &account{t: t, id: id, home: home, other: other, admin: s.admin}
	for _, namespace := range a.namespaces() {
		a.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.home, Name: accountName}}
	a.create(sa)
	token := &authenticationv1.TokenRequest{}
	require.NoError(t, s.admin.SubResource("token").Create(t.Context(), sa, token))
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken, config.QPS, config.Burst = token.Status.Token, -1, -1
	var err error
	a.self, err = client.New(config, client.Options{Mapper: s.admin.RESTMapper()})
	require.NoError(t, err)
	writer := a.newClusterRole("writer", rbacv1.PolicyRule{
		Verbs: []string{"create", "patch"}, APIGroups: []string{rbacv1.GroupName},
		Resources: []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"},
	})
	a.create(writer)
	a.create(clusterRoleBinding(writer.Name, roleRef(kindClusterRole, writer.Name), rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: a.home, Name: accountName}))
	return a
}

func (a *account) namespaces() []string { return []string{a.home, a.other} }

func (a *account) subject() rbac.Subject { return rbac.ServiceAccount(a.home, accountName) }

func (a *account) create(obj client.Object) {
	a.t.Helper()
	require.NoError(a.t, a.admin.Create(a.t.Context(), obj))
}

// grant gives the account random rules through all kinds of roles and bindings. It also creates roles and bindings that
// the account can bind and change.
func (a *account) grant(d dice) {
	a.t.Helper()
	a.d, a.label, a.gathers = d, map[string]string{"gather": a.id}, d.oneIn(3)
	for i := range 3 {
		for _, namespace := range a.namespaces() {
			a.create(role(namespace, fmt.Sprint("r", i), a.newRules(true)...))
		}
		r := a.newClusterRole(fmt.Sprint("r", i), a.newRules(false)...)
		if a.gathers && a.d.oneIn(2) {
			r.Labels = a.label
		}
		a.create(r)
	}
	if a.gathers {
		a.create(a.newGatherer("r3", a.label))
	}
	for i := range 2 + a.d.IntN(5) {
		a.create(a.newBinding(fmt.Sprint("b", i)))
	}
	for _, namespace := range a.namespaces() {
		a.apply(role(namespace, "live", stored(true, a.d.partOf(anything, a.rules))...))
		a.apply(roleBinding(namespace, "live", roleRef(kindRole, "live")))
	}
	live := a.newClusterRole("live", stored(false, a.d.partOf(anything, a.rules))...)
	a.apply(live)
	a.apply(a.newGatherer("livegatherer", map[string]string{"gather": "nothing"}))
	a.apply(clusterRoleBinding(live.Name, roleRef(kindClusterRole, live.Name)))
}

// apply creates an object that the account can change afterwards. It uses the account's field manager, because the
// account's writes would otherwise conflict before its permissions are checked.
func (a *account) apply(obj client.Object) {
	a.t.Helper()
	require.NoError(a.t, a.admin.Apply(a.t.Context(), applied(a.t, obj), client.FieldOwner(fieldManager)))
}

// newRules returns rules for a role of the account. Some of them allow more than they list: escalate, bind, or
// everything.
func (a *account) newRules(namespaced bool) []rbacv1.PolicyRule {
	out := stored(namespaced, a.d.rules(anything, 2))
	if a.d.oneIn(2) {
		r := rbacv1.PolicyRule{
			Verbs: a.d.some(1, []string{"bind", "escalate", "*"}), APIGroups: []string{rbacv1.GroupName}, Resources: a.d.some(2, []string{"clusterroles", "roles", "*"}),
		}
		if a.d.oneIn(2) {
			r.ResourceNames = a.d.some(3, []string{"new", a.id + "-new", "live", a.id + "-live", a.id + "-livegatherer", "r0", a.id + "-r0", "gone", ""})
		}
		out = append(out, r)
	}
	if a.d.oneIn(20) {
		all := []string{"*"}
		out = append(out, rbacv1.PolicyRule{Verbs: all, APIGroups: all, Resources: all})
		if !namespaced && a.d.oneIn(2) {
			out = append(out, rbacv1.PolicyRule{Verbs: all, NonResourceURLs: all})
		}
	}
	a.rules = append(a.rules, out...)
	return out
}

// stored returns only the rules that the API server accepts.
func stored(namespaced bool, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool {
		urls, resources := len(r.NonResourceURLs) > 0, len(r.APIGroups) > 0 && len(r.Resources) > 0
		return len(r.Verbs) == 0 || urls == resources || urls && (namespaced || len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0)
	})
}

func (a *account) newClusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: typeMeta(kindClusterRole), ObjectMeta: metav1.ObjectMeta{Name: a.id + "-" + name}, Rules: rules}
}

// newGatherer returns a ClusterRole that aggregates all ClusterRoles with the label.
func (a *account) newGatherer(name string, label map[string]string) *rbacv1.ClusterRole {
	r := a.newClusterRole(name)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: label}}}
	return r
}

// newBinding returns a RoleBinding in one of the namespaces or a ClusterRoleBinding. The role that it refers to does
// not always exist.
func (a *account) newBinding(name string) client.Object {
	var bound []rbacv1.Subject
	for range 1 + a.d.IntN(2) {
		bound = append(bound, []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: a.home, Name: accountName},
			{Kind: rbacv1.ServiceAccountKind, Namespace: a.home, Name: accountName},
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + a.home},
			{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: a.subject().User},
			{Kind: rbacv1.ServiceAccountKind, Namespace: a.other, Name: accountName},
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + a.other},
			{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: accountName},
		}[a.d.IntN(7)])
	}
	if a.d.oneIn(4) {
		return clusterRoleBinding(a.id+"-"+name, a.roleRef(kindClusterRole), bound...)
	}
	return roleBinding(a.namespaces()[a.d.IntN(2)], name, a.roleRef([]string{kindRole, kindClusterRole}[a.d.IntN(2)]), bound...)
}

// roleRef returns a reference to a role that may or may not exist.
func (a *account) roleRef(kind string) rbacv1.RoleRef {
	name := a.d.one([]string{"live", "r0", "r1", "r2", "r3", "gone"})
	if kind == kindClusterRole {
		name = a.id + "-" + name
	}
	return roleRef(kind, name)
}

// disturb changes the effective rules: it deletes a role, changes another one, and changes which ClusterRoles the
// aggregated one combines.
func (a *account) disturb() {
	a.t.Helper()
	ctx := a.t.Context()
	if a.d.oneIn(2) {
		deleted := role(a.namespaces()[a.d.IntN(2)], "r0")
		require.NoError(a.t, client.IgnoreNotFound(a.admin.Delete(ctx, deleted)))
	}
	changed := &rbacv1.ClusterRole{}
	require.NoError(a.t, a.admin.Get(ctx, client.ObjectKey{Name: a.id + "-r1"}, changed))
	changed.Rules = a.newRules(false)
	if changed.Labels = nil; a.gathers && a.d.oneIn(2) {
		changed.Labels = a.label
	}
	require.NoError(a.t, a.admin.Update(ctx, changed))
}

// settle waits until the API server's authorizer has observed all writes, and returns the RBAC objects. The authorizer
// has one watch for each of the four kinds, so settle writes one object of each kind and waits until the authorizer has
// observed these objects. Before, it waits for the writes of the ClusterRole aggregation controller.
func (a *account) settle() rbac.Listers {
	a.t.Helper()
	a.awaitGathered()
	a.markers++
	name := fmt.Sprint("marker", a.markers)
	rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{a.id + name}}
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: a.id + name}
	marker := a.newClusterRole(name, rule)
	a.create(marker)
	a.create(role(a.home, name, rule))
	a.create(clusterRoleBinding(marker.Name, roleRef(kindClusterRole, marker.Name), subject))
	subject.Name += "-home"
	a.create(roleBinding(a.home, name, roleRef(kindRole, name), subject))
	a.awaitAllowed(a.id+name, rbac.ClusterScope, rule.Resources[0])
	a.awaitAllowed(subject.Name, a.home, rule.Resources[0])
	return a.awaitGathered().listers(a.t, true)
}

// awaitGathered waits until the aggregated ClusterRoles are up to date, and returns all RBAC objects.
func (a *account) awaitGathered() world {
	a.t.Helper()
	var w world
	require.EventuallyWithT(a.t, func(c *assert.CollectT) {
		w = a.read()
		assert.True(c, gathered(w.ClusterRoles), "the aggregated ClusterRoles are up to date")
	}, patience, 20*time.Millisecond)
	return w
}

func (a *account) awaitAllowed(user, namespace, resource string) {
	a.t.Helper()
	require.EventuallyWithT(a.t, func(c *assert.CollectT) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Namespace: namespace, Resource: resource},
		}}
		assert.NoError(c, a.admin.Create(a.t.Context(), review))
		assert.True(c, review.Status.Allowed)
	}, patience, 5*time.Millisecond)
}

// read lists all RBAC objects in the cluster.
func (a *account) read() world {
	a.t.Helper()
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	var clusterRoles rbacv1.ClusterRoleList
	var clusterBindings rbacv1.ClusterRoleBindingList
	for _, list := range []client.ObjectList{&roles, &bindings, &clusterRoles, &clusterBindings} {
		require.NoError(a.t, a.admin.List(a.t.Context(), list))
	}
	return world{
		Roles: pointers(roles.Items), RoleBindings: pointers(bindings.Items),
		ClusterRoles: pointers(clusterRoles.Items), ClusterRoleBindings: pointers(clusterBindings.Items),
	}
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// gathered reports whether the ClusterRole aggregation controller has updated the rules of every aggregated ClusterRole.
func gathered(roles []*rbacv1.ClusterRole) bool {
	for _, into := range roles {
		if into.AggregationRule == nil {
			continue
		}
		var want []rbacv1.PolicyRule
		for _, s := range into.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&s)
			for _, from := range roles {
				if err == nil && from.Name != into.Name && selector.Matches(labelsOf(from)) {
					want = append(want, from.Rules...)
				}
			}
		}
		if len(rbac.Missing(want, into.Rules)) > 0 || len(rbac.Missing(into.Rules, want)) > 0 {
			return false
		}
	}
	return true
}
