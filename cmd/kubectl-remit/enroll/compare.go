package enroll

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// like says whether an object of the cluster is what enroll makes. One that lacks some of the wanted
// subjects is: enroll completes it. The error names what else there is, which these commands leave alone.
func like(live, want client.Object) (complete bool, err error) {
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
	return false, fmt.Errorf("%T is nothing that enroll makes", want)
}

func sameRules(live, want *rbacv1.Role) error {
	if more := rbac.Missing(want.Rules, live.Rules); len(more) > 0 {
		return notOurs(live, "grants "+lines(more))
	}
	if less := rbac.Missing(live.Rules, want.Rules); len(less) > 0 {
		return notOurs(live, "does not grant "+lines(less))
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
		return false, notOurs(live, fmt.Sprintf("binds %s %q", live.RoleRef.Kind, live.RoleRef.Name))
	}
	wanted := subjects(want)
	var more []string
	for _, s := range subjects(live) {
		if !slices.Contains(wanted, s) {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		return false, notOurs(live, "names "+strings.Join(more, ", "))
	}
	return !slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(subjects(live), s) }), nil
}

// subjects are those of a binding in words. A ServiceAccount without a namespace is of the binding's.
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

func notOurs(obj client.Object, has string) error {
	return fmt.Errorf("%s was not made by enroll: it %s; nothing was changed: delete it or mend it first", describe(obj), has)
}

func describe(obj client.Object) string {
	return fmt.Sprintf("%s %s/%s", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetNamespace(), obj.GetName())
}
