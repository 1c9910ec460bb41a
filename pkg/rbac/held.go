package rbac

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
)

// ClusterScope is the namespace that stands for the whole cluster.
const ClusterScope = ""

// Subject is a user as the API server's authenticators name it.
type Subject struct {
	User   string
	Groups []string
}

// ServiceAccount is the Subject of a ServiceAccount, with all groups that the API server gives it.
func ServiceAccount(namespace, name string) Subject {
	return Subject{
		User:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// Listers read the cluster's RBAC objects from informers.
type Listers struct {
	Roles               rbacv1listers.RoleLister
	RoleBindings        rbacv1listers.RoleBindingLister
	ClusterRoles        rbacv1listers.ClusterRoleLister
	ClusterRoleBindings rbacv1listers.ClusterRoleBindingLister
}

// Held returns the rules that the subject holds in a namespace, those of the whole cluster included,
// or only the latter for ClusterScope. A binding whose role does not exist gives nothing.
func (l Listers) Held(s Subject, namespace string) ([]rbacv1.PolicyRule, error) {
	rules, err := l.heldEverywhere(s)
	if err != nil || namespace == ClusterScope {
		return rules, err
	}
	bindings, err := roleBindingsFor(l.RoleBindings, namespace, s)
	if err != nil {
		return nil, fmt.Errorf("list RoleBindings of namespace %q: %w", namespace, err)
	}
	for _, b := range bindings {
		if !applies(b.Subjects, s, namespace) {
			continue
		}
		more, err := l.RulesOf(b.RoleRef, namespace)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

func (l Listers) heldEverywhere(s Subject) ([]rbacv1.PolicyRule, error) {
	bindings, err := clusterRoleBindingsFor(l.ClusterRoleBindings, s)
	if err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	var rules []rbacv1.PolicyRule
	for _, b := range bindings {
		if !applies(b.Subjects, s, ClusterScope) {
			continue
		}
		more, err := l.RulesOf(b.RoleRef, ClusterScope)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

// RulesOf returns the rules of the role that a binding in the namespace refers to. The error is a
// NotFound API error where the role does not exist.
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
	return nil, fmt.Errorf("roleRef of unknown kind %q", ref.Kind)
}

// applies says whether one of a binding's subjects is the user. A ServiceAccount subject without a
// namespace means that of its RoleBinding, and never applies in a ClusterRoleBinding.
func applies(subjects []rbacv1.Subject, s Subject, namespace string) bool {
	return slices.ContainsFunc(subjects, func(b rbacv1.Subject) bool {
		switch b.Kind {
		case rbacv1.UserKind:
			return b.Name == s.User
		case rbacv1.GroupKind:
			return slices.Contains(s.Groups, b.Name)
		case rbacv1.ServiceAccountKind:
			in := b.Namespace
			if in == "" {
				in = namespace
			}
			return in != "" && ServiceAccount(in, b.Name).User == s.User
		}
		return false
	})
}
