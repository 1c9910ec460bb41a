package enroll

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// compare returns an error if an existing object differs from what enroll creates, in which case the commands do not change it.
// A binding may be missing some of the wanted subjects, which enroll adds: then it is not complete.
func compare(live, want client.Object) (complete bool, err error) {
	switch want := want.(type) {
	case *rbacv1.Role:
		role, ok := live.(*rbacv1.Role)
		if !ok {
			return false, fmt.Errorf("%T is not a Role", live)
		}
		return true, sameRules(role, want)
	case *rbacv1.RoleBinding:
		binding, ok := live.(*rbacv1.RoleBinding)
		if !ok {
			return false, fmt.Errorf("%T is not a RoleBinding", live)
		}
		return sameBinding(binding, want)
	}
	return false, fmt.Errorf("%T is not created by enroll", want)
}

func sameRules(live, want *rbacv1.Role) error {
	if more := rbac.Missing(want.Rules, live.Rules); len(more) > 0 {
		return collision(live, "grants "+lines(more))
	}
	if less := rbac.Missing(live.Rules, want.Rules); len(less) > 0 {
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

func sameBinding(live, want *rbacv1.RoleBinding) (complete bool, err error) {
	if live.RoleRef.Kind != want.RoleRef.Kind || live.RoleRef.Name != want.RoleRef.Name {
		return false, collision(live, fmt.Sprintf("binds %s %q", live.RoleRef.Kind, live.RoleRef.Name))
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
func subjects(b *rbacv1.RoleBinding) []string {
	out := make([]string, 0, len(b.Subjects))
	for _, s := range b.Subjects {
		name := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			namespace := s.Namespace
			if namespace == "" {
				namespace = b.Namespace
			}
			name = namespace + "/" + name
		}
		out = append(out, fmt.Sprintf("%s %q", s.Kind, name))
	}
	return out
}

func collision(obj client.Object, has string) error {
	return fmt.Errorf("%s already exists and was not created by enroll: it %s; nothing was changed. Delete or correct it first", describe(obj), has)
}

func describe(obj client.Object) string {
	return fmt.Sprintf("%s %s/%s", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetNamespace(), obj.GetName())
}
