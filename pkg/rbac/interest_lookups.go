package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
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

// wider is a lookup that all changes touch which touch the given one, and that it has in common with those of other namespaces
// or objects.
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

// changedSubjects leaves out those that were and are bound to the same role. Anybody may write a binding of
// very many subjects, again and again: it takes no longer than their number asks for.
func changedSubjects(before, after any) []string {
	was, _ := subjectKeys(before) // it has an error only to be an index function
	is, _ := subjectKeys(after)
	if roleRefOf(before) != roleRefOf(after) {
		all := slices.Concat(was, is)
		slices.Sort(all)
		return slices.Compact(all)
	}
	if slices.Equal(was, is) {
		return nil
	}
	return sets.New(was...).SymmetricDifference(sets.New(is...)).UnsortedList()
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
