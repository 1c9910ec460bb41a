package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
)

// note is called with each lookup before it is answered.
type note func(lookups ...string)

// noting returns listers that call n with every lookup, regardless of which code uses them.
func (l Listers) noting(n note) Listers {
	return Listers{
		Roles:               notingRoles{l.Roles, n},
		RoleBindings:        notingRoleBindings{l.RoleBindings, n},
		ClusterRoles:        noting[rbacv1.ClusterRole]{l.ClusterRoles, n, kindClusterRole, ClusterScope},
		ClusterRoleBindings: notingClusterRoleBindings{noting[rbacv1.ClusterRoleBinding]{l.ClusterRoleBindings, n, kindClusterRoleBinding, ClusterScope}, l.ClusterRoleBindings},
		untracked:           &l,
	}
}

// Untracked returns listers that record nothing, for queries whose result need not wake the key when it changes.
func (l Listers) Untracked() Listers {
	if l.untracked != nil {
		return *l.untracked
	}
	return l
}

// noting is a lister of one kind in one scope that records its lookups.
type noting[T any] struct {
	in interface {
		List(selector labels.Selector) ([]*T, error)
		Get(name string) (*T, error)
	}
	note            note
	kind, namespace string
}

// List implements the listers of client-go.
func (l noting[T]) List(selector labels.Selector) ([]*T, error) {
	l.note(objectLookup(l.kind, l.namespace, anywhere))
	return l.in.List(selector)
}

// Get implements the listers of client-go.
func (l noting[T]) Get(name string) (*T, error) {
	l.note(objectLookup(l.kind, l.namespace, name))
	return l.in.Get(name)
}

type notingRoles struct {
	in   rbacv1listers.RoleLister
	note note
}

// List implements rbacv1listers.RoleLister.
func (l notingRoles) List(selector labels.Selector) ([]*rbacv1.Role, error) {
	l.note(objectLookup(kindRole, anywhere, anywhere))
	return l.in.List(selector)
}

// Roles implements rbacv1listers.RoleLister.
func (l notingRoles) Roles(namespace string) rbacv1listers.RoleNamespaceLister {
	return noting[rbacv1.Role]{l.in.Roles(namespace), l.note, kindRole, namespace}
}

type notingRoleBindings struct {
	in   rbacv1listers.RoleBindingLister
	note note
}

// List implements rbacv1listers.RoleBindingLister.
func (l notingRoleBindings) List(selector labels.Selector) ([]*rbacv1.RoleBinding, error) {
	l.note(objectLookup(kindRoleBinding, anywhere, anywhere))
	return l.in.List(selector)
}

// RoleBindings implements rbacv1listers.RoleBindingLister.
func (l notingRoleBindings) RoleBindings(namespace string) rbacv1listers.RoleBindingNamespaceLister {
	return noting[rbacv1.RoleBinding]{l.in.RoleBindings(namespace), l.note, kindRoleBinding, namespace}
}

func (l notingRoleBindings) bySubject(namespace string, s Subject) ([]*rbacv1.RoleBinding, error) {
	l.note(userKeys(namespace, s)...)
	return roleBindingsFor(l.in, namespace, s)
}

type notingClusterRoleBindings struct {
	noting[rbacv1.ClusterRoleBinding]
	in rbacv1listers.ClusterRoleBindingLister
}

func (l notingClusterRoleBindings) bySubject(s Subject) ([]*rbacv1.ClusterRoleBinding, error) {
	l.note(userKeys(ClusterScope, s)...)
	return clusterRoleBindingsFor(l.in, s)
}
