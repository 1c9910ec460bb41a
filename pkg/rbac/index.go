package rbac

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// SubjectIndex is the name of the index from subjects to the bindings that name them. Informers maintain it with each
// event, so a query about one account reads only that account's bindings.
const SubjectIndex = "remit.dev/subject"

// maxIndexed is the maximum number of subjects of a binding that is indexed by subject. An index key takes several
// times the memory of a subject, and a binding may have 40,000 subjects. Larger bindings are indexed only by namespace,
// and every query about that namespace reads them.
const maxIndexed = 100

// BindingIndexers returns the indexers for informers of RoleBindings and ClusterRoleBindings.
func BindingIndexers() toolscache.Indexers {
	return toolscache.Indexers{SubjectIndex: indexKeys}
}

// NewRoleBindingLister returns a lister for an informer's store. It uses the store's SubjectIndex, if there is one.
func NewRoleBindingLister(store toolscache.Indexer) rbacv1listers.RoleBindingLister {
	return roleBindings{rbacv1listers.NewRoleBindingLister(store), store}
}

// NewClusterRoleBindingLister is like NewRoleBindingLister, but for ClusterRoleBindings.
func NewClusterRoleBindingLister(store toolscache.Indexer) rbacv1listers.ClusterRoleBindingLister {
	return clusterRoleBindings{rbacv1listers.NewClusterRoleBindingLister(store), store}
}

type roleBindings struct {
	rbacv1listers.RoleBindingLister
	store toolscache.Indexer
}

type clusterRoleBindings struct {
	rbacv1listers.ClusterRoleBindingLister
	store toolscache.Indexer
}

// roleBindingsFor lists the RoleBindings of a namespace that may name the subject, or all of them if the lister has
// no index.
func roleBindingsFor(l rbacv1listers.RoleBindingLister, namespace string, s Subject) ([]*rbacv1.RoleBinding, error) {
	switch l := l.(type) {
	case notingRoleBindings:
		return l.bySubject(namespace, s)
	case roleBindings:
		if hasIndex(l.store) {
			return bySubject[rbacv1.RoleBinding](l.store, namespace, s)
		}
	}
	return l.RoleBindings(namespace).List(labels.Everything())
}

func clusterRoleBindingsFor(l rbacv1listers.ClusterRoleBindingLister, s Subject) ([]*rbacv1.ClusterRoleBinding, error) {
	switch l := l.(type) {
	case notingClusterRoleBindings:
		return l.bySubject(s)
	case clusterRoleBindings:
		if hasIndex(l.store) {
			return bySubject[rbacv1.ClusterRoleBinding](l.store, ClusterScope, s)
		}
	}
	return l.List(labels.Everything())
}

// roleBindingsAnywhere lists the RoleBindings of all namespaces that may name the subject. It may return a binding
// twice.
func roleBindingsAnywhere(l rbacv1listers.RoleBindingLister, s Subject) ([]*rbacv1.RoleBinding, error) {
	switch l := l.(type) {
	case notingRoleBindings:
		l.note(userKeys(anywhere, s)...)
		return roleBindingsAnywhere(l.in, s)
	case roleBindings:
		if !hasIndex(l.store) {
			break
		}
		abroad, err := bySubject[rbacv1.RoleBinding](l.store, anywhere, s)
		home, _, foreign := serviceaccount.SplitUsername(s.User)
		if err != nil || foreign != nil {
			return abroad, err
		}
		atHome, err := bySubject[rbacv1.RoleBinding](l.store, home, s)
		return append(abroad, atHome...), err
	}
	return l.List(labels.Everything())
}

func hasIndex(store toolscache.Indexer) bool {
	_, ok := store.GetIndexers()[SubjectIndex]
	return ok
}

// bySubject returns the bindings that name the user or one of its groups, and those with too many subjects to index.
// It returns each binding once.
func bySubject[T any](store toolscache.Indexer, namespace string, s Subject) ([]*T, error) {
	seen := map[any]bool{}
	var out []*T
	for _, key := range userKeys(namespace, s) {
		found, err := store.ByIndex(SubjectIndex, key)
		if err != nil {
			return nil, fmt.Errorf("look up bindings by subject: %w", err)
		}
		for _, obj := range found {
			binding, ok := obj.(*T)
			if ok && !seen[obj] {
				seen[obj] = true
				out = append(out, binding)
			}
		}
	}
	return out, nil
}

// userKeys returns the index keys of the bindings in a namespace, anywhere or ClusterScope that name the user or its groups, or have
// too many subjects to index. Lookups of these bindings are tracked by the same keys.
func userKeys(namespace string, s Subject) []string {
	keys := append(make([]string, 0, len(s.Groups)+2), largeKey(namespace), subjectKey(namespace, rbacv1.UserKind, s.User))
	for _, g := range s.Groups {
		keys = append(keys, subjectKey(namespace, rbacv1.GroupKind, g))
	}
	return keys
}

// subjectKey returns the index key of a user or a group. A ServiceAccount has the key of its user.
func subjectKey(namespace, kind, name string) string {
	return namespace + "\x00" + kind + "\x00" + name
}

// largeKey returns the index key for those bindings of a namespace that have more than maxIndexed subjects.
func largeKey(namespace string) string { return namespace + "\x00" }

// indexKeys is the index function. It returns the keys of all subjects of a binding or, if there are more than
// maxIndexed, a key for large bindings. A RoleBinding also has keys for queries across all namespaces, except for
// ServiceAccounts of its own namespace. Most bindings have only such subjects, and queries find them by that namespace.
func indexKeys(obj any) ([]string, error) {
	b, ok := obj.(*rbacv1.RoleBinding)
	if subjects := SubjectsOf(obj); len(subjects) > maxIndexed {
		switch {
		case !ok:
			return []string{largeKey(ClusterScope)}, nil
		case slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return !isAtHome(s, b.Namespace) }):
			return []string{largeKey(b.Namespace), largeKey(anywhere)}, nil
		}
		return []string{largeKey(b.Namespace)}, nil
	}
	keys, err := subjectKeys(obj)
	if !ok || err != nil {
		return keys, err
	}
	for _, subject := range b.Subjects {
		if isAtHome(subject, b.Namespace) {
			continue
		}
		if key := keyOf(anywhere, b.Namespace, subject); key != "" {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// isAtHome reports whether the subject is a ServiceAccount of the RoleBinding's own namespace.
func isAtHome(s rbacv1.Subject, namespace string) bool {
	return s.Kind == rbacv1.ServiceAccountKind && (s.Namespace == "" || s.Namespace == namespace)
}

// SubjectsOf returns the subjects of a binding, or nil for other objects.
func SubjectsOf(obj any) []rbacv1.Subject {
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		return b.Subjects
	case *rbacv1.ClusterRoleBinding:
		return b.Subjects
	}
	return nil
}

// subjectKeys returns the keys of all subjects of a binding.
func subjectKeys(obj any) ([]string, error) { //nolint:unparam // a cache.IndexFunc
	namespace, subjects := ClusterScope, SubjectsOf(obj)
	if b, ok := obj.(*rbacv1.RoleBinding); ok {
		namespace = b.Namespace
	}
	if len(subjects) == 0 {
		return nil, nil
	}
	keys := make([]string, 0, len(subjects))
	for _, s := range subjects {
		if key := keyOf(namespace, namespace, s); key != "" {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// keyOf returns the index key of a subject for a scope, or "" if the kind of the subject is unknown. A ServiceAccount
// without a namespace belongs to namespace, which is that of its binding.
func keyOf(scope, namespace string, s rbacv1.Subject) string {
	switch s.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		return subjectKey(scope, s.Kind, s.Name)
	case rbacv1.ServiceAccountKind:
		return scope + "\x00" + rbacv1.UserKind + "\x00" + serviceaccount.ServiceAccountUsernamePrefix + cmp.Or(s.Namespace, namespace) + ":" + s.Name
	}
	return ""
}
