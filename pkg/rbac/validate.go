package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValidateRole validates a Role or, without a namespace, a ClusterRole, except for its metadata, in the same way as the
// API server (k8s.io/kubernetes, pkg/apis/rbac/validation). The API server would reject the role only after other
// objects have been written.
func ValidateRole(role *rbacv1.ClusterRole) error {
	namespaced := role.Namespace != ClusterScope
	if err := ValidateRules(role.Rules, namespaced); err != nil || namespaced || role.AggregationRule == nil {
		return err
	}
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		return fmt.Errorf("aggregationRule has no clusterRoleSelectors")
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		if _, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i]); err != nil {
			return fmt.Errorf("aggregationRule: %w", err)
		}
	}
	return nil
}

// ValidateRules validates the rules of one Role (namespaced) or ClusterRole. It returns ErrTooLarge if they together
// expand to more than MaxAtoms.
func ValidateRules(rules []rbacv1.PolicyRule, namespaced bool) error {
	if TooLarge(rules) {
		return ErrTooLarge
	}
	for _, r := range rules {
		if err := Validate(r, namespaced); err != nil {
			return err
		}
	}
	return nil
}

// Validate validates one rule of a Role (namespaced) or a ClusterRole, as the API server does. It also rejects a rule
// that expands to more than MaxAtoms.
func Validate(rule rbacv1.PolicyRule, namespaced bool) error {
	if atoms(rule) > MaxAtoms {
		return fmt.Errorf("a rule expands to more than %d combinations", MaxAtoms)
	}
	if len(rule.Verbs) == 0 {
		return fmt.Errorf("rule %s has no verbs", Line(rule))
	}
	if len(rule.NonResourceURLs) > 0 {
		switch {
		case namespaced:
			return fmt.Errorf("rule %s: nonResourceURLs can be granted only for the whole cluster", Line(rule))
		case len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0:
			return fmt.Errorf("rule %s mixes resources and nonResourceURLs", Line(rule))
		}
		return nil
	}
	if len(rule.APIGroups) == 0 {
		return fmt.Errorf("rule %s has no apiGroups", Line(rule))
	}
	if len(rule.Resources) == 0 {
		return fmt.Errorf("rule %s has no resources", Line(rule))
	}
	return nil
}

// ValidateBinding validates a RoleBinding or, without a namespace, a ClusterRoleBinding. Empty API groups are valid,
// because the API server sets them to their defaults.
func ValidateBinding(binding *rbacv1.ClusterRoleBinding) error {
	namespaced, ref := binding.Namespace != ClusterScope, binding.RoleRef
	switch {
	case ref.APIGroup != "" && ref.APIGroup != rbacv1.GroupName:
		return fmt.Errorf("roleRef has apiGroup %q, but must have %q", ref.APIGroup, rbacv1.GroupName)
	case ref.Kind != kindClusterRole && (ref.Kind != kindRole || !namespaced):
		return fmt.Errorf("roleRef has unsupported kind %q", ref.Kind)
	case ref.Name == "":
		return fmt.Errorf("roleRef has no name")
	}
	if problems := content.IsPathSegmentName(ref.Name); len(problems) > 0 {
		return fmt.Errorf("roleRef %q: %s", ref.Name, problems[0])
	}
	for _, s := range binding.Subjects {
		if why := subjectProblem(s, namespaced); why != "" {
			return fmt.Errorf("subject %s %q %s", s.Kind, s.Name, why)
		}
	}
	return nil
}

// subjectProblem describes the problem with an invalid subject. It returns "" if the subject is valid.
func subjectProblem(s rbacv1.Subject, namespaced bool) string {
	group := rbacv1.GroupName
	switch s.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
	case rbacv1.ServiceAccountKind:
		group = ""
		if problems := apivalidation.ValidateServiceAccountName(s.Name, false); len(problems) > 0 {
			return "has an invalid name: " + problems[0]
		}
		if s.Namespace == "" && !namespaced {
			return "has no namespace"
		}
	default:
		return "has an unsupported kind"
	}
	switch {
	case s.Name == "":
		return "has no name"
	case s.APIGroup != "" && s.APIGroup != group:
		return fmt.Sprintf("has unsupported apiGroup %q", s.APIGroup)
	}
	return ""
}
