package execute

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Roles checks, before Remit writes a role that it renders itself, which subjects would get what the role grants
// (docs/adr/0039).
type Roles struct {
	RBAC  rbac.Listers
	Owner ownerutil.Owner
	// Rendered are the objects of the install, including its bindings.
	Rendered []*unstructured.Unstructured
	// Live reads directly from the API server, as the controller identity.
	Live client.Reader
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Ensure is apply.Ensure for a role. It reads the role before the bindings: while there is no role, the API server
// rejects new bindings.
func (r Roles) Ensure(ctx context.Context, c client.Client, role *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	live, err := apply.Live(ctx, c, role)
	if err != nil {
		return "", nil, err
	}
	if err := apply.Check(live, role, r.Owner); err != nil {
		return "", nil, err
	}
	var result apply.Result
	var written *unstructured.Unstructured
	err = r.guard(ctx, c, live, role, func(live *unstructured.Unstructured) (err error) {
		result, written, err = apply.From(ctx, c, live, role, r.Owner)
		return err
	})
	return result, written, err
}

// guard writes a role or a binding with a function that gets the live object. It first verifies that no foreign
// binding refers to the role, and that the role has no rules that another subject may already have.
func (r Roles) guard(ctx context.Context, c client.Client, live, obj *unstructured.Unstructured, write func(live *unstructured.Unstructured) error) error {
	if err := r.CheckBindings(ctx, live, obj); err != nil {
		return err
	}
	live, err := r.refill(ctx, c, live, obj)
	if err != nil {
		return err
	}
	err = write(live)
	if IsBinding(obj) && apply.IsFieldConflict(err) {
		return &apply.CollisionError{Object: apply.Describe(obj), Found: "is not as this install created it",
			Why: "its subjects were changed by another field manager", Remedy: "delete it, and it will be recreated"}
	}
	return err
}

// CheckBindings returns an *apply.CollisionError if a binding other than the install's own, as it is rendered, would grant
// its subjects rules that live does not have; live is nil if there is no role. The names of these roles are
// predictable: a user who may write Roles and RoleBindings can bind an empty role of any name, and then delete it or
// wait until it is filled.
func (r Roles) CheckBindings(ctx context.Context, live, role *unstructured.Unstructured) error {
	if !IsRole(role) || !r.RBAC.Readable() || live != nil && sameRules(live, role) {
		return nil
	}
	bindings, err := r.RBAC.BindingsOf(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}, role.GetNamespace())
	if err != nil {
		return fmt.Errorf("bindings of %s: %w", apply.Describe(role), err)
	}
	for _, b := range bindings {
		if err := r.judge(ctx, b, role); err != nil {
			return err
		}
	}
	return nil
}

// judge returns an *apply.CollisionError unless a binding of the role is the install's own, as it is rendered.
func (r Roles) judge(ctx context.Context, b rbac.Binding, role *unstructured.Unstructured) error {
	own := r.Owner.Owns(b)
	if own && r.asRendered(b) {
		return nil
	}
	log.FromContext(ctx).Info("Foreign binding refers to an operator's role", "binding", apply.Describe(b), "role", apply.Describe(role))
	return r.collision(b, role, own)
}

// IsRole reports whether an object is a Role or a ClusterRole.
func IsRole(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Role" || obj.GetKind() == "ClusterRole"
}

// IsBinding reports whether an object is a RoleBinding or a ClusterRoleBinding.
func IsBinding(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "RoleBinding" || obj.GetKind() == "ClusterRoleBinding"
}

// RoleOf describes, as apply.Describe does, the role that a binding refers to; "" for anything else.
func RoleOf(obj *unstructured.Unstructured) string {
	if !IsBinding(obj) {
		return ""
	}
	kind, _, _ := unstructured.NestedString(obj.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(obj.Object, "roleRef", "name")
	namespace := obj.GetNamespace()
	if kind == "ClusterRole" {
		namespace = ""
	}
	return apply.Describe(apply.Reference(rbacv1.SchemeGroupVersion.WithKind(kind), namespace, name))
}

// sameRules compares rules exactly: apply.Contains accepts a rule that is narrowed by resourceNames as the wanted
// one.
func sameRules(live, role *unstructured.Unstructured) bool {
	var have, want rbacv1.ClusterRole // a Role has the same fields
	for obj, into := range map[*unstructured.Unstructured]*rbacv1.ClusterRole{live: &have, role: &want} {
		if apply.Decode(obj, into) != nil {
			return false
		}
	}
	return equality.Semantic.DeepEqual(have.Rules, want.Rules) && have.AggregationRule == nil
}

// asRendered reports whether a binding has the role and the subjects of the rendered binding with its name.
func (r Roles) asRendered(b rbac.Binding) bool {
	return slices.ContainsFunc(r.Rendered, func(obj *unstructured.Unstructured) bool {
		if !IsBinding(obj) || apply.Describe(obj) != apply.Describe(b) {
			return false
		}
		want := &rbacv1.RoleBinding{} // a ClusterRoleBinding has the same fields
		return apply.Decode(obj, want) == nil && want.RoleRef == rbac.RoleRefOf(b) && equality.Semantic.DeepEqual(want.Subjects, rbac.SubjectsOf(b))
	})
}

// collision names the binding to readers of the install's namespace, unless it is in another namespace, about which
// they may not know (docs/adr/0021). The log names it.
func (r Roles) collision(b rbac.Binding, role *unstructured.Unstructured, own bool) error {
	out := &apply.CollisionError{Object: apply.Describe(b), Remedy: "delete it"}
	if b.GetNamespace() != "" && b.GetNamespace() != r.Owner.Namespace {
		out.Object = "a RoleBinding of another namespace"
		if role.GetNamespace() != "" {
			out.Object = "a RoleBinding of namespace " + role.GetNamespace()
		}
		out.Remedy = fmt.Sprintf("an administrator can find it by its roleRef (kubectl get rolebindings -A -o wide, ROLE %s/%s) and delete it", role.GetKind(), role.GetName())
	}
	out.Why = fmt.Sprintf("it refers to %s, and would grant its subjects the operator's permissions", apply.Describe(role))
	if own {
		out.Found = "is not as this install created it"
		out.Why = fmt.Sprintf("its subjects were changed, and %s would grant them the operator's permissions", apply.Describe(role))
		out.Remedy += ", and it will be recreated"
	}
	return out
}
