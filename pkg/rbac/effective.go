package rbac

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authuser "k8s.io/apiserver/pkg/authentication/user"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// ClusterScope is the namespace that represents the whole cluster in scopes of rules.
const ClusterScope = ""

// Subject contains the user name and the groups that the API server's authenticators return for a user.
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

// SubjectOf returns the Subject of an identity.
func SubjectOf(i scoped.Identity) Subject {
	return Subject{User: i.Username(), Groups: i.Groups()}
}

// Listers read the cluster's RBAC objects from informers.
type Listers struct {
	Roles               rbacv1listers.RoleLister
	RoleBindings        rbacv1listers.RoleBindingLister
	ClusterRoles        rbacv1listers.ClusterRoleLister
	ClusterRoleBindings rbacv1listers.ClusterRoleBindingLister
	// untracked contains the same listers without lookup tracking; nil if these listers do not track lookups.
	untracked *Listers
}

// Permissions contains the effective rules of a subject in one scope, and the reasons why they may be incomplete.
type Permissions struct {
	// Namespace is the scope; ClusterScope for the whole cluster.
	Namespace string
	// Rules contains the rules that the subject gets from all bindings that apply to it.
	Rules []rbacv1.PolicyRule
	// Dangling contains the subject's bindings to missing roles. A binding grants nothing until its role exists.
	Dangling []Dangling
	// ReadErrors contains the errors of failed lookups, or a *LimitError. If it is not empty, the subject may have more
	// permissions than Rules.
	ReadErrors []error
	// NotKept contains the names of the subject's ClusterRoles whose rules are not part of Rules, because there are too many. They
	// are no error: others than the subject may have added the rules. If it is not empty, the subject has more permissions than Rules.
	NotKept []string
	// Partial is true if LowerBound omits what the subject is granted only in the namespace, because its roles there are too large.
	Partial bool

	set *prepared
	// bound contains the names of the subject's ClusterRoles.
	bound map[string]bool
}

// prepared contains rules and, after the first query, their Set, which takes several times the memory of the rules.
type prepared struct {
	rules []rbacv1.PolicyRule
	once  sync.Once
	set   Set
}

func (p *prepared) get() Set {
	p.once.Do(func() { p.set = NewSet(p.rules) })
	return p.set
}

// Dangling is a binding whose role does not exist.
type Dangling struct {
	// Namespace is the namespace of the binding; ClusterScope for a ClusterRoleBinding.
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

// EffectiveRules returns all rules that apply to the subject in a namespace, including cluster-wide rules; for
// ClusterScope, it returns only the cluster-wide rules. A binding to a missing role grants nothing. If it returns an
// error (failed lookups or a *LimitError), the rules may be incomplete. ClusterRoles with too many rules are omitted, so the
// rules tell what the subject may do, and not what it may not do.
func (l Listers) EffectiveRules(s Subject, namespace string) ([]rbacv1.PolicyRule, error) {
	h := l.gather(s, namespace, everyBinding)
	return h.Rules, errors.Join(h.ReadErrors...)
}

// Permissions is like EffectiveRules, but returns dangling bindings and errors together with the rules. The first query
// prepares the rules for many queries. A caller that keeps the permissions of many scopes or subjects uses Recent.
func (l Listers) Permissions(s Subject, namespace string) Permissions {
	return l.permissionsOf(s, namespace, everyBinding)
}

func (l Listers) permissionsOf(s Subject, namespace string, counts func(Binding) bool) Permissions {
	h := l.gather(s, namespace, counts)
	h.set = &prepared{rules: h.Rules}
	return h
}

// LowerBound is like Permissions, but may omit rules, so use it only to check that the subject has enough permissions.
// The administrator of a namespace can bind any number of roles there to any account. If these exceed MaxValues and the
// namespace is not the subject's own, LowerBound returns only the cluster-wide rules.
func (l Listers) LowerBound(s Subject, namespace string) Permissions {
	return l.LowerBoundOf(s, namespace, everyBinding)
}

// LowerBoundOf is like LowerBound, but considers only the bindings for which counts returns true.
func (l Listers) LowerBoundOf(s Subject, namespace string, counts func(Binding) bool) Permissions {
	h := l.permissionsOf(s, namespace, counts)
	var limit *LimitError
	if home, _, _ := serviceaccount.SplitUsername(s.User); namespace == home || !errors.As(errors.Join(h.ReadErrors...), &limit) {
		return h
	}
	h = l.permissionsOf(s, ClusterScope, counts)
	h.Namespace, h.Partial = namespace, true
	return h
}

// Set returns the rules as a Set.
func (h Permissions) Set() Set {
	if h.set == nil {
		return NewSet(h.Rules)
	}
	return h.set.get()
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

// applies reports whether a binding's subjects include the user or one of its groups. A ServiceAccount subject without
// a namespace belongs to the RoleBinding's namespace; in a ClusterRoleBinding, it matches no user.
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
