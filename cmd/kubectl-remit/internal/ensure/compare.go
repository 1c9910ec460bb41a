package ensure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
)

// compare returns an error if an existing object differs from the one that the command creates, because the commands do not
// change such objects. If the only difference is that a binding does not name all subjects, compare returns false and
// no error, because enroll adds the subjects.
func compare(command string, live, want client.Object) (complete bool, err error) {
	if fmt.Sprintf("%T", live) != fmt.Sprintf("%T", want) {
		return false, fmt.Errorf("%T is not a %T", live, want)
	}
	complete, difference := true, ""
	switch want := want.(type) {
	case *rbacv1.Role, *rbacv1.ClusterRole:
		difference = differentRules(live, want)
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		complete, difference = differentBinding(live, want)
	default:
		return false, fmt.Errorf("%T is not created by %s", want, command)
	}
	if difference != "" {
		return false, fmt.Errorf("%s already exists and was not created by %s: it %s; nothing was changed. Delete it or correct it first", apply.Describe(live), command, difference)
	}
	return complete, nil
}

// SameRules reports whether two roles have the same rules.
func SameRules(live, want client.Object) bool { return differentRules(live, want) == "" }

func rulesOf(obj client.Object) []rbacv1.PolicyRule {
	switch role := obj.(type) {
	case *rbacv1.Role:
		return role.Rules
	case *rbacv1.ClusterRole:
		return role.Rules
	}
	return nil
}

func differentRules(live, want client.Object) string {
	if role, ok := live.(*rbacv1.ClusterRole); ok && role.AggregationRule != nil {
		return "aggregates other ClusterRoles"
	}
	has, wants := rulesOf(live), rulesOf(want)
	if more := rbac.Missing(wants, has); len(more) > 0 {
		return "grants " + lines(more)
	}
	if less := rbac.Missing(has, wants); len(less) > 0 {
		return "does not grant " + lines(less)
	}
	return ""
}

func lines(rules []rbacv1.PolicyRule) string {
	var out []string
	for _, r := range rules {
		out = append(out, rbac.Line(r))
	}
	return strings.Join(out, ", ")
}

func differentBinding(live, want client.Object) (complete bool, difference string) {
	has, wants := rbac.RoleRefOf(live), rbac.RoleRefOf(want)
	if has.Kind != wants.Kind || has.Name != wants.Name {
		return false, fmt.Sprintf("binds %s %q", has.Kind, has.Name)
	}
	wanted := Subjects(want)
	var more []string
	for _, s := range Subjects(live) {
		if !slices.Contains(wanted, s) {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		return false, "names " + strings.Join(more, ", ")
	}
	return !slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(Subjects(live), s) }), ""
}

// Subjects describes the subjects of a binding. A ServiceAccount without a namespace is in the binding's namespace.
func Subjects(binding client.Object) []string {
	all := rbac.SubjectsOf(binding)
	out := make([]string, 0, len(all))
	for _, s := range all {
		name := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			name = cmp.Or(s.Namespace, binding.GetNamespace()) + "/" + name
		}
		out = append(out, fmt.Sprintf("%s %q", s.Kind, name))
	}
	return out
}
