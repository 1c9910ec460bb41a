package rbac

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authuser "k8s.io/apiserver/pkg/authentication/user"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
)

// ClusterScope is the namespace that stands for the whole cluster.
const ClusterScope = ""

// Subject is a user as the API server's authenticators identify it.
type Subject struct {
	User   string
	Groups []string
}

// ServiceAccount returns the Subject of a ServiceAccount with all groups that the API server assigns to it.
func ServiceAccount(namespace, name string) Subject {
	return Subject{
		User:   serviceaccount.MakeUsername(namespace, name),
		Groups: append(serviceaccount.MakeGroupNames(namespace), authuser.AllAuthenticated),
	}
}

// Listers read the cluster's RBAC objects from informers.
type Listers struct {
	Roles               rbacv1listers.RoleLister
	RoleBindings        rbacv1listers.RoleBindingLister
	ClusterRoles        rbacv1listers.ClusterRoleLister
	ClusterRoleBindings rbacv1listers.ClusterRoleBindingLister
	// untracked are the same listers if these record lookups.
	untracked *Listers
}

// Permissions are the effective rules of a subject in one scope, and what could not be determined about them.
type Permissions struct {
	// Namespace is the scope; ClusterScope for the whole cluster.
	Namespace string
	// Rules are the rules of all bindings that apply to the subject.
	Rules []rbacv1.PolicyRule
	// Dangling are the subject's bindings to missing roles. They grant nothing until the role exists.
	Dangling []Dangling
	// ReadErrors are failed lookups or a *LimitError: the subject may have more than Rules.
	ReadErrors []error

	set *Set
}

// Dangling is a binding whose role does not exist.
type Dangling struct {
	// Namespace of the binding; ClusterScope for a ClusterRoleBinding.
	Namespace, Binding string
	Role               rbacv1.RoleRef
}

func (d Dangling) String() string {
	binding := "ClusterRoleBinding " + d.Binding
	if d.Namespace != ClusterScope {
		binding = "RoleBinding " + d.Namespace + "/" + d.Binding
	}
	return fmt.Sprintf("%s refers to %s %q, which does not exist", binding, d.Role.Kind, d.Role.Name)
}

// EffectiveRules returns all rules that apply to the subject in a namespace, including those of the whole cluster, or
// only the latter for ClusterScope. A binding to a missing role grants nothing. If it returns an error (failed
// lookups or a *LimitError), the rules may be incomplete.
func (l Listers) EffectiveRules(s Subject, namespace string) ([]rbacv1.PolicyRule, error) {
	h := l.gather(s, namespace, everyBinding)
	return h.Rules, errors.Join(h.ReadErrors...)
}

// Permissions returns the effective rules together with what could not be determined, prepared for many queries.
func (l Listers) Permissions(s Subject, namespace string) Permissions {
	h := l.gather(s, namespace, everyBinding)
	set := NewSet(h.Rules)
	h.set = &set
	return h
}

// LowerBound is Permissions for callers that ask whether the subject may do enough, never whether it may do too much.
// The administrator of a namespace can bind any number of roles there to any account. If these exceed MaxValues and
// the namespace is not the subject's own, they are ignored and only the cluster-wide rules are returned.
func (l Listers) LowerBound(s Subject, namespace string) Permissions {
	h := l.Permissions(s, namespace)
	var limit *LimitError
	if home, _, _ := serviceaccount.SplitUsername(s.User); namespace == home || !errors.As(errors.Join(h.ReadErrors...), &limit) {
		return h
	}
	h = l.Permissions(s, ClusterScope)
	h.Namespace = namespace
	return h
}

// Set returns the rules as a Set.
func (h Permissions) Set() Set {
	if h.set == nil {
		return NewSet(h.Rules)
	}
	return *h.set
}

// RulesOf returns the rules of the role that a binding in the namespace refers to, or a NotFound API error if the
// role does not exist.
func (l Listers) RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		role, err := l.Roles.Roles(namespace).Get(ref.Name)
		if err != nil {
			return nil, fmt.Errorf("get Role %s/%s: %w", namespace, ref.Name, err)
		}
		return role.Rules, nil
	case "ClusterRole":
		role, err := l.ClusterRoles.Get(ref.Name)
		if err != nil {
			return nil, fmt.Errorf("get ClusterRole %s: %w", ref.Name, err)
		}
		return role.Rules, nil
	}
	return nil, fmt.Errorf("unknown kind %q in roleRef", ref.Kind)
}

// applies reports whether the user is one of a binding's subjects. A ServiceAccount subject without a namespace is in
// the RoleBinding's namespace, and never applies in a ClusterRoleBinding.
func applies(subjects []rbacv1.Subject, s Subject, namespace string) bool {
	return slices.ContainsFunc(subjects, func(b rbacv1.Subject) bool {
		switch b.Kind {
		case rbacv1.UserKind:
			return b.Name == s.User
		case rbacv1.GroupKind:
			return slices.Contains(s.Groups, b.Name)
		case rbacv1.ServiceAccountKind:
			in := cmp.Or(b.Namespace, namespace)
			return in != "" && serviceaccount.MatchesUsername(in, b.Name, s.User)
		}
		return false
	})
}
