package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Kinds of RBAC objects in lookups.
const (
	kindRole               = "Role"
	kindRoleBinding        = "RoleBinding"
	kindClusterRole        = "ClusterRole"
	kindClusterRoleBinding = "ClusterRoleBinding"
)

// anywhere, as a namespace or name in a lookup, stands for all namespaces or names. No object can have this name.
const anywhere = "*"

// objectLookup returns the lookup of an object, which need not exist. If name is the constant anywhere, it returns the lookup of
// all objects of the kind.
func objectLookup(kind, namespace, name string) string {
	return kind + "\x00" + namespace + "\x00" + name
}

// wider returns a less specific lookup, for all namespaces or all objects of a kind. Every change that affects the
// given lookup also affects the wider one.
func wider(lookup string) string {
	first, rest, _ := strings.Cut(lookup, "\x00")
	switch first {
	case kindRole, kindRoleBinding, kindClusterRole, kindClusterRoleBinding:
		return objectLookup(first, anywhere, anywhere)
	case ClusterScope:
		return lookup
	}
	return anywhere + "\x00" + rest
}

// touched returns the lookups whose results may differ after a change. Labels and annotations grant nothing and are
// ignored.
func touched(before, after any) []string {
	obj := after
	if obj == nil {
		obj = before
	}
	switch o := obj.(type) {
	case *rbacv1.Role:
		return roleLookups(kindRole, o.Namespace, o.Name, before, after)
	case *rbacv1.ClusterRole:
		return roleLookups(kindClusterRole, ClusterScope, o.Name, before, after)
	case *rbacv1.RoleBinding:
		return bindingLookups(kindRoleBinding, o.Namespace, o.Name, before, after)
	case *rbacv1.ClusterRoleBinding:
		return bindingLookups(kindClusterRoleBinding, ClusterScope, o.Name, before, after)
	}
	return nil
}

// roleLookups returns the lookups that a change to a role affects. It returns none if the role exists before and after
// the change and its rules are the same.
func roleLookups(kind, namespace, name string, before, after any) []string {
	if before != nil && after != nil && SameContent(before, after) {
		return nil
	}
	return objectLookups(kind, namespace, name)
}

func objectLookups(kind, namespace, name string) []string {
	return []string{
		objectLookup(kind, namespace, name), objectLookup(kind, namespace, anywhere), objectLookup(kind, anywhere, anywhere),
	}
}

// bindingLookups returns the lookups that a change to a binding affects: those of the binding itself, and those of the
// subjects that gain or lose its role, in every scope in which they may have been looked up. It returns none if no
// subject gains or loses the role.
func bindingLookups(kind, namespace, name string, before, after any) []string {
	subjects := changedSubjects(namespace, before, after)
	if len(subjects) == 0 {
		return nil
	}
	out := append(objectLookups(kind, namespace, name), subjects...)
	if kind == kindRoleBinding {
		for _, key := range subjects {
			out = append(out, anywhere+key[len(namespace):])
		}
	}
	return out
}

// changedSubjects returns the keys of the subjects that gain or lose the role of a binding. For a binding with too many subjects to
// index, before or after the change, it returns only the key of such bindings: tenants can repeatedly write very large ones.
func changedSubjects(namespace string, before, after any) []string {
	switch {
	case SameContent(before, after):
		return nil
	case len(SubjectsOf(before)) > maxIndexed, len(SubjectsOf(after)) > maxIndexed:
		return []string{largeKey(namespace)}
	}
	was, _ := subjectKeys(before) // the error is always nil; only the signature of index functions requires it
	is, _ := subjectKeys(after)
	if RoleRefOf(before) != RoleRefOf(after) {
		all := slices.Concat(was, is)
		slices.Sort(all)
		return slices.Compact(all)
	}
	if slices.Equal(was, is) {
		return nil
	}
	return sets.New(was...).SymmetricDifference(sets.New(is...)).UnsortedList()
}

// RoleRefOf returns the role that a binding refers to.
func RoleRefOf(obj any) rbacv1.RoleRef {
	switch o := obj.(type) {
	case *rbacv1.RoleBinding:
		return o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		return o.RoleRef
	}
	return rbacv1.RoleRef{}
}
