package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Kinds of RBAC objects in lookups.
const (
	kindRole               = "Role"
	kindRoleBinding        = "RoleBinding"
	kindClusterRole        = "ClusterRole"
	kindClusterRoleBinding = "ClusterRoleBinding"
)

// anywhere stands for every namespace or every name in a lookup. No object can have this name.
const anywhere = "*"

// objectLookup is the lookup of one object, existing or not; with anywhere, of a list.
func objectLookup(kind, namespace, name string) string {
	return kind + "\x00" + namespace + "\x00" + name
}

// wider returns a coarser lookup, shared by all namespaces or objects: every change that touches the given lookup
// touches it too.
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

// touched returns the lookups whose answers a change may alter. Labels and annotations grant nothing and are ignored.
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

// roleLookups returns none if the role existed before, still exists, and grants the same.
func roleLookups(kind, namespace, name string, before, after any) []string {
	if was, is := contentOf(before), contentOf(after); was != nil && is != nil && equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	return objectLookups(kind, namespace, name)
}

func objectLookups(kind, namespace, name string) []string {
	return []string{
		objectLookup(kind, namespace, name), objectLookup(kind, namespace, anywhere), objectLookup(kind, anywhere, anywhere),
	}
}

// contentOf returns a role without its metadata, or nil.
func contentOf(obj any) *rbacv1.ClusterRole {
	switch o := obj.(type) {
	case *rbacv1.Role:
		return &rbacv1.ClusterRole{Rules: o.Rules}
	case *rbacv1.ClusterRole:
		return &rbacv1.ClusterRole{Rules: o.Rules, AggregationRule: o.AggregationRule}
	}
	return nil
}

// bindingLookups returns the lookups of the binding itself and of the subjects that gain or lose something, in every
// scope in which they may have been looked up.
func bindingLookups(kind, namespace, name string, before, after any) []string {
	subjects := changedSubjects(before, after)
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

// changedSubjects omits subjects that were and still are bound to the same role. Tenants can repeatedly write
// bindings with very many subjects, so the time is linear in their number.
func changedSubjects(before, after any) []string {
	was, _ := subjectKeys(before) // the error is always nil: index functions must return one
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
