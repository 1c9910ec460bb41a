package execute

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Roles checks which subjects would get the permissions of a role before Remit writes the role. It is used for roles
// that Remit renders itself (docs/adr/0039).
type Roles struct {
	RBAC  rbac.Listers
	Owner ownerutil.Owner
	// Rendered contains the objects of the install, including its bindings.
	Rendered []*unstructured.Unstructured
	// Live reads directly from the API server, as the controller identity.
	Live client.Reader
	// Clock is the clock to use; nil means the system clock.
	Clock clock.PassiveClock
	// Checked contains the namespaces whose RoleBindings were checked since it was created; nil means that they are listed for each Role.
	Checked *Checked

	// few means that a namespace may have few RoleBindings, so that they are listed soon after a Role that was not sealed has its rules.
	few bool
}

// Ensure is like apply.Ensure, but checks the bindings of the role before it writes the role. It reads the role before
// the bindings, because the API server rejects new bindings while the role does not exist.
func (r Roles) Ensure(ctx context.Context, c client.Client, role *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	live, err := r.read(ctx, c, role)
	if err != nil {
		return "", nil, err
	}
	if err := apply.Check(live, role, r.Owner); err != nil {
		return "", nil, err
	}
	return r.from(ctx, c, live, role)
}

// read reads a role or a binding. The error is an *apply.TooLargeError if it is for a target and larger than what the install would write.
func (r Roles) read(ctx context.Context, c client.Client, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !IsForTarget(obj, r.Owner) {
		return apply.Live(ctx, c, obj)
	}
	return apply.LiveWithin(ctx, c, obj, func(cost int64) error { return fitsTarget(obj, cost) })
}

// EnsureUncached is like Ensure for a role or a binding that may not be in the cache. It first tries to create such an object, and
// reads it only if this causes a conflict: the object exists, although the cache does not contain it yet.
func (r Roles) EnsureUncached(ctx context.Context, c client.Client, obj *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	if isUncached(r.RBAC, obj) {
		result, made, err := r.from(ctx, c, nil, obj)
		if !apierrors.IsConflict(err) {
			return result, made, err
		}
	}
	return r.Ensure(ctx, c, obj)
}

func (r Roles) from(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	var result apply.Result
	var written *unstructured.Unstructured
	err := r.guard(ctx, c, live, role, func(live *unstructured.Unstructured) (_ *unstructured.Unstructured, err error) {
		result, written, err = apply.From(ctx, c, live, role, r.Owner)
		return written, err
	})
	if err != nil {
		return "", nil, err
	}
	return result, written, nil
}

// isUncached reports whether the cache shows that a role or a binding does not exist. It returns false if RBAC cannot be read.
func isUncached(l rbac.Listers, obj *unstructured.Unstructured) bool {
	_, err := l.Untracked().Object(obj.GetKind(), obj.GetNamespace(), obj.GetName())
	return apierrors.IsNotFound(err)
}

// guard calls write with the live object of a role or a binding. Before it writes a role, it verifies that no foreign
// binding refers to the role. If another user may have bound the role while it did not have its rules, guard seals it before the write
// (see refill), and checks the bindings again after it (see confirm). It also checks those of an existing role that is unconfirmed.
func (r Roles) guard(ctx context.Context, c client.Client, live, obj *unstructured.Unstructured, write func(live *unstructured.Unstructured) (*unstructured.Unstructured, error)) error {
	if err := r.CheckBindings(ctx, live, obj); err != nil {
		return err
	}
	live, exposed, err := r.refill(ctx, c, live, obj)
	if err != nil {
		return err
	}
	if !exposed && r.isSealable(obj) && live != nil && pending.has(live) {
		if err := r.confirm(ctx, c, live, obj, outcome{written: live}); err != nil {
			return err
		}
	}
	written, err := write(live)
	if exposed {
		return r.confirm(ctx, c, live, obj, outcome{written, err})
	}
	if IsBinding(obj) && live != nil && apply.IsFieldConflict(err) {
		return &apply.CollisionError{Object: apply.Describe(obj), Found: "no longer matches what this install created",
			Why: "its subjects were changed by another field manager", Remedy: "delete it, and it will be recreated"}
	}
	return err
}

// CheckBindings returns an *apply.CollisionError if a binding other than those that the install renders would grant its
// subjects rules that live does not have; live is nil if the role does not exist. RoleBindings of ClusterRoles in other namespaces do
// not count: only who can write ClusterRoles could have bound a ClusterRole with other rules, and everybody else had these
// permissions in their namespace when they bound it (docs/adr/0092). The names of these roles are
// predictable: a user who may write Roles and RoleBindings can create an empty Role with such a name, bind it, and then
// delete the Role or wait until it gets rules.
func (r Roles) CheckBindings(ctx context.Context, live, role *unstructured.Unstructured) error {
	if !IsRole(role) || !r.RBAC.Readable() || live != nil && sameRules(live, role) {
		return nil
	}
	bindings, err := r.RBAC.BindingsOf(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}, role.GetNamespace())
	if err != nil {
		return fmt.Errorf("list the bindings of %s: %w", apply.Describe(role), err)
	}
	for _, b := range bindings {
		if role.GetKind() == "ClusterRole" && b.GetNamespace() != "" && b.GetNamespace() != r.Owner.Namespace {
			continue
		}
		if err := r.judge(ctx, b, role); err != nil {
			return err
		}
	}
	return nil
}

// judge returns an *apply.CollisionError unless a binding of the role belongs to the install and has the rendered role
// and subjects.
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

// RoleOf returns the role that a binding refers to, in the form of apply.Describe; "" for other objects.
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

// sameRules reports whether the rules are equal. apply.Contains is not sufficient: it would accept a live rule that
// resourceNames restrict.
func sameRules(live, role *unstructured.Unstructured) bool {
	var have, want rbacv1.ClusterRole // a Role has the same fields
	for obj, into := range map[*unstructured.Unstructured]*rbacv1.ClusterRole{live: &have, role: &want} {
		if apply.Decode(obj, into) != nil {
			return false
		}
	}
	return equality.Semantic.DeepEqual(have.Rules, want.Rules) && have.AggregationRule == nil
}

// asRendered reports whether a binding has the role and the subjects of the rendered binding with the same name.
func (r Roles) asRendered(b rbac.Binding) bool {
	return slices.ContainsFunc(r.Rendered, func(obj *unstructured.Unstructured) bool {
		if !IsBinding(obj) || apply.Describe(obj) != apply.Describe(b) {
			return false
		}
		want := &rbacv1.RoleBinding{} // a ClusterRoleBinding has the same fields
		return apply.Decode(obj, want) == nil && want.RoleRef == rbac.RoleRefOf(b) && equality.Semantic.DeepEqual(want.Subjects, rbac.SubjectsOf(b))
	})
}

// collision returns an error that names the binding, unless the binding is in another namespace, whose objects readers
// of the install's namespace may not be allowed to see (docs/adr/0021). The log always contains the name.
func (r Roles) collision(b rbac.Binding, role *unstructured.Unstructured, own bool) error {
	out := &apply.CollisionError{Object: apply.Describe(b), Remedy: "delete it"}
	if b.GetNamespace() != "" && b.GetNamespace() != r.Owner.Namespace {
		out.Object = "a RoleBinding in namespace " + b.GetNamespace()
		out.Remedy = fmt.Sprintf("an administrator can find it by its roleRef (kubectl get rolebindings -A -o wide, ROLE %s/%s) and delete it", role.GetKind(), role.GetName())
	}
	out.Why = fmt.Sprintf("it refers to %s and would grant its subjects the operator's permissions", apply.Describe(role))
	if own {
		out.Found = "no longer matches what this install created"
		out.Why = fmt.Sprintf("its subjects were changed, and %s would grant them the operator's permissions", apply.Describe(role))
		out.Remedy += ", and it will be recreated"
	}
	return out
}
