package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func rbacResource(name string) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: name}
}

// binding is a RoleBinding or, if its key has no namespace, a ClusterRoleBinding.
type binding struct {
	key      Key
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// rbacWorld contains the RBAC objects of a Snapshot.
type rbacWorld struct {
	rules           map[Key][]rbacv1.PolicyRule
	bindings        []binding
	serviceAccounts []types.NamespacedName
	// alive contains the namespaces that are not being deleted.
	alive map[string]bool
}

func readRBAC(s *Snapshot) (*rbacWorld, error) {
	w := &rbacWorld{rules: map[Key][]rbacv1.PolicyRule{}, alive: map[string]bool{}}
	roles, err := items[rbacv1.Role](s, rbacResource("roles"))
	if err != nil {
		return nil, err
	}
	for i := range roles {
		w.rules[Key{rbacResource("roles"), roles[i].Namespace, roles[i].Name}] = roles[i].Rules
	}
	clusterRoles, err := items[rbacv1.ClusterRole](s, rbacResource("clusterroles"))
	if err != nil {
		return nil, err
	}
	for i := range clusterRoles {
		w.rules[Key{rbacResource("clusterroles"), "", clusterRoles[i].Name}] = clusterRoles[i].Rules
	}
	roleBindings, err := items[rbacv1.RoleBinding](s, rbacResource("rolebindings"))
	if err != nil {
		return nil, err
	}
	for i := range roleBindings {
		b := &roleBindings[i]
		w.bindings = append(w.bindings, binding{Key{rbacResource("rolebindings"), b.Namespace, b.Name}, b.RoleRef, b.Subjects})
	}
	clusterRoleBindings, err := items[rbacv1.ClusterRoleBinding](s, rbacResource("clusterrolebindings"))
	if err != nil {
		return nil, err
	}
	for i := range clusterRoleBindings {
		b := &clusterRoleBindings[i]
		w.bindings = append(w.bindings, binding{Key{rbacResource("clusterrolebindings"), "", b.Name}, b.RoleRef, b.Subjects})
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
		if namespaces[i].DeletionTimestamp.IsZero() {
			w.alive[namespaces[i].Name] = true
		}
	}
	return err
}

// given returns the rules of the role to which a binding refers, or none if the role does not exist.
func (w *rbacWorld) given(b binding) []rbacv1.PolicyRule {
	if b.ref.Kind == "Role" {
		return w.rules[Key{rbacResource("roles"), b.key.Namespace, b.ref.Name}]
	}
	return w.rules[Key{rbacResource("clusterroles"), "", b.ref.Name}]
}

// scopes returns the scopes in which a ServiceAccount may have permissions: the whole cluster, and each live namespace
// with a binding for it.
func (w *rbacWorld) scopes(sa types.NamespacedName) []string {
	who := serviceAccount(sa)
	out := []string{clusterScope}
	for _, b := range w.bindings {
		if b.key.Namespace == "" || !w.alive[b.key.Namespace] || slices.Contains(out, b.key.Namespace) {
			continue
		}
		if slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == sa.Namespace && s.Name == sa.Name ||
				s.Kind == rbacv1.UserKind && s.Name == who.user ||
				s.Kind == rbacv1.GroupKind && (slices.Contains(who.groups, s.Name) || s.Name == "system:authenticated")
		}) {
			out = append(out, b.key.Namespace)
		}
	}
	return out
}
