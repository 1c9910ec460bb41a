package grants

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// complete applies the API server's defaults to a manifest and validates it as the API server does
// (k8s.io/kubernetes/pkg/apis/rbac, v1 and validation).
func complete(obj client.Object) error {
	switch o := obj.(type) {
	case *rbacv1.Role:
		return join(checkMeta(&o.ObjectMeta, true), checkRules(o.Rules, true))
	case *rbacv1.ClusterRole:
		o.Namespace = ""
		return join(checkMeta(&o.ObjectMeta, false), checkRules(o.Rules, false), checkAggregation(o.AggregationRule))
	case *rbacv1.RoleBinding:
		return join(checkMeta(&o.ObjectMeta, true), completeRef(&o.RoleRef, "Role", "ClusterRole"), completeSubjects(o.Subjects, true))
	case *rbacv1.ClusterRoleBinding:
		o.Namespace = ""
		return join(checkMeta(&o.ObjectMeta, false), completeRef(&o.RoleRef, "ClusterRole"), completeSubjects(o.Subjects, false))
	}
	return fmt.Errorf("%T is not an RBAC object", obj)
}

func join(lists ...field.ErrorList) error {
	var all field.ErrorList
	for _, l := range lists {
		all = append(all, l...)
	}
	return all.ToAggregate()
}

func checkName(name string, _ bool) []string { return content.IsPathSegmentName(name) }

func checkMeta(meta *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMeta(meta, namespaced, checkName, field.NewPath("metadata"))
}

func checkRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var out field.ErrorList
	for i, rule := range rules {
		if err := rbac.Validate(rule, namespaced); err != nil {
			out = append(out, field.Forbidden(field.NewPath("rules").Index(i), err.Error()))
		}
	}
	return out
}

func checkAggregation(rule *rbacv1.AggregationRule) field.ErrorList {
	if rule == nil {
		return nil
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(rule.ClusterRoleSelectors) == 0 {
		return field.ErrorList{field.Required(path, "at least one is required")}
	}
	var out field.ErrorList
	for i := range rule.ClusterRoleSelectors {
		out = append(out, metav1validation.ValidateLabelSelector(&rule.ClusterRoleSelectors[i],
			metav1validation.LabelSelectorValidationOptions{}, path.Index(i))...)
	}
	return out
}

func completeRef(ref *rbacv1.RoleRef, kinds ...string) field.ErrorList {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
	path := field.NewPath("roleRef")
	out := oneOf(path.Child("apiGroup"), ref.APIGroup, rbacv1.GroupName)
	out = append(out, oneOf(path.Child("kind"), ref.Kind, kinds...)...)
	if ref.Name == "" {
		return append(out, field.Required(path.Child("name"), ""))
	}
	for _, problem := range checkName(ref.Name, false) {
		out = append(out, field.Invalid(path.Child("name"), ref.Name, problem))
	}
	return out
}

func oneOf(path *field.Path, value string, allowed ...string) field.ErrorList {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func completeSubjects(subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	var out field.ErrorList
	for i := range subjects {
		out = append(out, completeSubject(&subjects[i], namespaced, field.NewPath("subjects").Index(i))...)
	}
	return out
}

func completeSubject(s *rbacv1.Subject, namespaced bool, path *field.Path) field.ErrorList {
	var out field.ErrorList
	if s.Name == "" {
		out = append(out, field.Required(path.Child("name"), ""))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		out = append(out, oneOf(path.Child("apiGroup"), s.APIGroup, "")...)
		if !namespaced && s.Namespace == "" {
			out = append(out, field.Required(path.Child("namespace"), ""))
		}
		if s.Name == "" {
			return out
		}
		for _, problem := range apivalidation.ValidateServiceAccountName(s.Name, false) {
			out = append(out, field.Invalid(path.Child("name"), s.Name, problem))
		}
		return out
	case rbacv1.UserKind, rbacv1.GroupKind:
		if s.APIGroup == "" {
			s.APIGroup = rbacv1.GroupName
		}
		return append(out, oneOf(path.Child("apiGroup"), s.APIGroup, rbacv1.GroupName)...)
	}
	return append(out, oneOf(path.Child("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)...)
}
