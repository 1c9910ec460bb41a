package rbac

import (
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
)

// ErrUnreadable is wrapped by every error returned by Unreadable listers.
var ErrUnreadable = errors.New("reading RBAC is not allowed")

// Unreadable returns listers for a program that is not allowed to read RBAC. Every query returns an error that wraps
// ErrUnreadable and the given reason.
func Unreadable(why error) Listers {
	err := fmt.Errorf("%w: %w", ErrUnreadable, why)
	return Listers{
		Roles:               unreadableRoles{unreadable[rbacv1.Role]{err}},
		RoleBindings:        unreadableRoleBindings{unreadable[rbacv1.RoleBinding]{err}},
		ClusterRoles:        unreadable[rbacv1.ClusterRole]{err},
		ClusterRoleBindings: unreadable[rbacv1.ClusterRoleBinding]{err},
	}
}

// Readable reports whether the listers can read RBAC. It returns false for the result of Unreadable.
func (l Listers) Readable() bool {
	_, is := l.Untracked().ClusterRoles.(unreadable[rbacv1.ClusterRole])
	return !is
}

type unreadable[T any] struct{ err error }

// List implements the listers of client-go.
func (u unreadable[T]) List(labels.Selector) ([]*T, error) { return nil, u.err }

// Get implements the listers of client-go.
func (u unreadable[T]) Get(string) (*T, error) { return nil, u.err }

type unreadableRoles struct{ unreadable[rbacv1.Role] }

// Roles implements rbacv1listers.RoleLister.
func (u unreadableRoles) Roles(string) rbacv1listers.RoleNamespaceLister { return u.unreadable }

type unreadableRoleBindings struct{ unreadable[rbacv1.RoleBinding] }

// RoleBindings implements rbacv1listers.RoleBindingLister.
func (u unreadableRoleBindings) RoleBindings(string) rbacv1listers.RoleBindingNamespaceLister {
	return u.unreadable
}
