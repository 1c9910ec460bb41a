package oracle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/rbac"
)

// Rules are what somebody holds, by scope: rbac.ClusterScope, and namespaces.
type Rules map[string][]rbacv1.PolicyRule

// rbacWorld is the RBAC of a Snapshot.
type rbacWorld struct {
	rbac.Listers
	namespaces      []string
	serviceAccounts []types.NamespacedName
	bindings        []binding
}

// binding is a RoleBinding, or a ClusterRoleBinding in rbac.ClusterScope.
type binding struct {
	key Key
	ref rbacv1.RoleRef
}

func rbacResource(name string) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: name}
}

func readRBAC(s *Snapshot) (*rbacWorld, error) {
	roles, err := indexed[rbacv1.Role](s, "roles")
	if err != nil {
		return nil, err
	}
	clusterRoles, err := indexed[rbacv1.ClusterRole](s, "clusterroles")
	if err != nil {
		return nil, err
	}
	roleBindings, err := indexed[rbacv1.RoleBinding](s, "rolebindings")
	if err != nil {
		return nil, err
	}
	clusterRoleBindings, err := indexed[rbacv1.ClusterRoleBinding](s, "clusterrolebindings")
	if err != nil {
		return nil, err
	}
	w := &rbacWorld{Listers: rbac.Listers{
		Roles:               rbacv1listers.NewRoleLister(roles),
		RoleBindings:        rbac.NewRoleBindingLister(roleBindings),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(clusterRoles),
		ClusterRoleBindings: rbac.NewClusterRoleBindingLister(clusterRoleBindings),
	}}
	for _, obj := range roleBindings.List() {
		if b, ok := obj.(*rbacv1.RoleBinding); ok {
			w.bindings = append(w.bindings, binding{Key{rbacResource("rolebindings"), b.Namespace, b.Name}, b.RoleRef})
		}
	}
	for _, obj := range clusterRoleBindings.List() {
		if b, ok := obj.(*rbacv1.ClusterRoleBinding); ok {
			w.bindings = append(w.bindings, binding{Key{rbacResource("clusterrolebindings"), "", b.Name}, b.RoleRef})
		}
	}
	return w, w.readIdentities(s)
}

func (w *rbacWorld) readIdentities(s *Snapshot) error {
	accounts, err := items[corev1.ServiceAccount](s, schema.GroupResource{Resource: "serviceaccounts"})
	if err != nil {
		return err
	}
	for i := range accounts {
		w.serviceAccounts = append(w.serviceAccounts, types.NamespacedName{Namespace: accounts[i].Namespace, Name: accounts[i].Name})
	}
	namespaces, err := items[corev1.Namespace](s, schema.GroupResource{Resource: "namespaces"})
	for i := range namespaces {
		w.namespaces = append(w.namespaces, namespaces[i].Name)
	}
	return err
}

func indexed[T any](s *Snapshot, resource string) (toolscache.Indexer, error) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
		toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
	})
	list, err := items[T](s, rbacResource(resource))
	for i := range list {
		if err := indexer.Add(&list[i]); err != nil {
			return nil, err
		}
	}
	return indexer, err
}

// heldBy is all that a ServiceAccount holds, anywhere.
func (w *rbacWorld) heldBy(key types.NamespacedName) (Rules, error) {
	out := Rules{}
	for _, scope := range append([]string{rbac.ClusterScope}, w.namespaces...) {
		rules, err := w.Held(rbac.ServiceAccount(key.Namespace, key.Name), scope)
		if err != nil {
			return nil, err
		}
		out[scope] = rules
	}
	return out, nil
}

// with is both.
func (r Rules) with(more Rules) Rules {
	out := Rules{}
	for _, rules := range []Rules{r, more} {
		for scope, list := range rules {
			out[scope] = append(out[scope], list...)
		}
	}
	return out
}

// beyond says what of the rules the bound does not cover, scope by scope, in sorted lines. What is bound
// in the whole cluster is so in a namespace that the bound does not know.
func (r Rules) beyond(bound Rules) []string {
	var out []string
	for scope, rules := range r {
		limit, ok := bound[scope]
		if !ok {
			limit = bound[rbac.ClusterScope]
		}
		if scope != rbac.ClusterScope { // URLs are of no namespace: a binding there gives none
			rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 })
		}
		for _, rule := range rbac.Missing(limit, rules) {
			out = append(out, fmt.Sprintf("in %q %s", scope, rbac.Line(rule)))
		}
	}
	slices.Sort(out)
	return out
}

// checkBound is I1.
func checkBound(w *rbacWorld, scene *Scene, before *Snapshot, own map[Key]bool) ([]string, error) {
	bound, err := w.bound(scene)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, sa := range w.serviceAccounts {
		if sa.Namespace != scene.Namespace || slices.Contains(scene.Stronger, sa.Name) {
			continue
		}
		holds, err := w.heldBy(sa)
		if err != nil {
			return nil, err
		}
		for _, line := range holds.beyond(bound) {
			out = append(out, fmt.Sprintf("ServiceAccount %s holds what its account does not: %s", sa, line))
		}
	}
	for _, b := range w.bindings {
		if _, old := before.objects[b.key]; old || own[b.key] || b.key.Namespace == pulseNamespace {
			continue
		}
		rules, _ := w.RulesOf(b.ref, b.key.Namespace) // a role that is not there gives nothing
		for _, line := range (Rules{b.key.Namespace: rules}).beyond(bound) {
			out = append(out, fmt.Sprintf("%s gives what the account does not hold: %s", b.key, line))
		}
	}
	return out, nil
}

// bound is what the scene's accounts hold now, and what they were seen to hold.
func (w *rbacWorld) bound(scene *Scene) (Rules, error) {
	bound := scene.held
	for _, account := range scene.Accounts {
		holds, err := w.heldBy(account)
		if err != nil {
			return nil, err
		}
		bound = bound.with(holds)
	}
	return bound, nil
}
