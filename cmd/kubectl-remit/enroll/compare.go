package enroll

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// compare returns an error if an existing object differs from the one that enroll creates, because the commands do not
// change such objects. If the only difference is that a binding does not name all subjects, compare returns false and
// no error, because enroll adds the subjects.
func compare(live, want client.Object) (complete bool, err error) {
	if fmt.Sprintf("%T", live) != fmt.Sprintf("%T", want) {
		return false, fmt.Errorf("%T is not a %T", live, want)
	}
	switch want := want.(type) {
	case *rbacv1.Role, *rbacv1.ClusterRole:
		return true, sameRules(live, rulesOf(live), rulesOf(want))
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		return sameBinding(live, want)
	}
	return false, fmt.Errorf("%T is not created by enroll", want)
}

func rulesOf(obj client.Object) []rbacv1.PolicyRule {
	switch role := obj.(type) {
	case *rbacv1.Role:
		return role.Rules
	case *rbacv1.ClusterRole:
		return role.Rules
	}
	return nil
}

func sameRules(live client.Object, has, wants []rbacv1.PolicyRule) error {
	if more := rbac.Missing(wants, has); len(more) > 0 {
		return collision(live, "grants "+lines(more))
	}
	if less := rbac.Missing(has, wants); len(less) > 0 {
		return collision(live, "does not grant "+lines(less))
	}
	return nil
}

func lines(rules []rbacv1.PolicyRule) string {
	var out []string
	for _, r := range rules {
		out = append(out, rbac.Line(r))
	}
	return strings.Join(out, ", ")
}

func sameBinding(live, want client.Object) (complete bool, err error) {
	has, wants := rbac.RoleRefOf(live), rbac.RoleRefOf(want)
	if has.Kind != wants.Kind || has.Name != wants.Name {
		return false, collision(live, fmt.Sprintf("binds %s %q", has.Kind, has.Name))
	}
	wanted := subjects(want)
	var more []string
	for _, s := range subjects(live) {
		if !slices.Contains(wanted, s) {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		return false, collision(live, "names "+strings.Join(more, ", "))
	}
	return !slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(subjects(live), s) }), nil
}

// subjects describes the subjects of a binding. A ServiceAccount without a namespace is in the binding's namespace.
func subjects(binding client.Object) []string {
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

func collision(obj client.Object, has string) error {
	return fmt.Errorf("%s already exists and was not created by enroll: it %s; nothing was changed. Delete it or correct it first", describe(obj), has)
}

func describe(obj client.Object) string {
	name := obj.GetName()
	if obj.GetNamespace() != "" {
		name = obj.GetNamespace() + "/" + name
	}
	return obj.GetObjectKind().GroupVersionKind().Kind + " " + name
}
