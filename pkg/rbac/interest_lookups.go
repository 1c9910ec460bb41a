package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Kinds of RBAC objects, as lookups name them.
const (
	kindRole               = "Role"
	kindRoleBinding        = "RoleBinding"
	kindClusterRole        = "ClusterRole"
	kindClusterRoleBinding = "ClusterRoleBinding"
)

// anywhere stands, in a lookup, for every namespace or every name; no object can be called so.
const anywhere = "*"

// objectLookup is that of one object, there or not; with anywhere, of all that a lister would list.
func objectLookup(kind, namespace, name string) string {
	return kind + "\x00" + namespace + "\x00" + name
}

// subjectLookups are those of the bindings in a namespace, or anywhere in one, or of the cluster that
// name the user or one of its groups.
func subjectLookups(namespace string, s Subject) []string { return userKeys(namespace, s) }

// touched are the lookups whose answers a change may alter, as far as rights go: labels and annotations
// give none.
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

// roleLookups are none where the role existed, exists and gives the same.
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

// contentOf is a role without its metadata; nil for none.
func contentOf(obj any) *rbacv1.ClusterRole {
	switch o := obj.(type) {
	case *rbacv1.Role:
		return &rbacv1.ClusterRole{Rules: o.Rules}
	case *rbacv1.ClusterRole:
		return &rbacv1.ClusterRole{Rules: o.Rules, AggregationRule: o.AggregationRule}
	}
	return nil
}

// bindingLookups are those of the subjects whom the change gives or takes something, wherever they were
// looked for, and of the binding itself.
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

// changedSubjects leaves out those that were and are bound to the same role.
func changedSubjects(before, after any) []string {
	was, _ := subjectKeys(before) // it has an error only to be an index function
	is, _ := subjectKeys(after)
	all := slices.Concat(was, is)
	slices.Sort(all)
	all = slices.Compact(all)
	if roleRefOf(before) != roleRefOf(after) {
		return all
	}
	return slices.DeleteFunc(all, func(key string) bool { return slices.Contains(was, key) && slices.Contains(is, key) })
}

func roleRefOf(obj any) rbacv1.RoleRef {
	switch o := obj.(type) {
	case *rbacv1.RoleBinding:
		return o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		return o.RoleRef
	}
	return rbacv1.RoleRef{}
}
