package execute

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// sealPrefix is the prefix of names that, because of the slash, no object can have and no request can contain. It is
// followed by the time of the seal and random text.
const sealPrefix = "remit/sealed:"

// resealAfter is how long Remit leaves a sealed Role unchanged after it failed to write the rules. Writing the seal
// triggers another reconcile, so without this pause each failure would immediately cause the next attempt.
const resealAfter = 10 * time.Second

// refill prepares a Role that other users may have bound while it did not have its rules: one from which the rules were removed, or one
// that does not exist (see isExposed). exposed is true for such a Role. refill first seals it: it restricts the rules to a name that no
// object can have, which keeps other users from binding the Role. After that, all bindings are known, and they are checked again.
// Nothing is written unless the same check and a dry run of the rules have succeeded before. Rules that cannot be sealed are the
// reason why confirm checks the bindings of exposed Roles once more after the rules have been written. Users of a target decide how long
// this takes, so that a Role with such rules is not filled in a namespace with many RoleBindings.
func (r *Roles) refill(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (filled *unstructured.Unstructured, exposed bool, err error) {
	if !r.isSealable(role) {
		return live, false, nil
	}
	if exposed, err := r.isExposed(live, role); err != nil || !exposed {
		return live, false, err
	}
	if age := r.now().Sub(sealedAt(live)); age >= 0 && age < resealAfter {
		return nil, true, &apply.DelayedError{Why: fmt.Sprintf("the rules of %s could not be written; Remit waits for at least %s before it retries", apply.Describe(role), resealAfter)}
	}
	if err := r.judgeBefore(ctx, live, role); err != nil {
		return nil, true, err
	}
	if _, _, err := apply.From(ctx, client.NewDryRunClient(c), live, role, r.Owner); err != nil {
		return nil, true, err
	}
	sealed, err := r.seal(ctx, c, live, role)
	if err != nil {
		return live, true, err
	}
	return cmp.Or(sealed, live), true, r.judgeLive(ctx, live, role)
}

// isSealable reports whether the bindings of an object, which must be a Role, can be listed.
func (r Roles) isSealable(obj *unstructured.Unstructured) bool {
	return r.Live != nil && obj.GetKind() == "Role" && r.RBAC.Readable()
}

// seal seals a Role, and returns it, or nil if none of its rules can be sealed. An account that has permissions only for certain names
// may not write a rule for another name; for such an account, seal omits the rules with resource names. It seals no Role in this way, and
// takes no rules away, if a target has more than 100 bindings.
func (r *Roles) seal(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	sealed, err := r.writeSeal(ctx, c, live, role)
	if !apierrors.IsForbidden(err) {
		return sealed, err
	}
	r.few = true
	if err := r.judgeUnseen(ctx, role); err != nil {
		return nil, err
	}
	return r.writeSeal(ctx, c, live, withoutNames(role))
}

func (r Roles) writeSeal(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	sealed, ok := sealedFor(role, r.now())
	if !ok {
		return nil, nil
	}
	_, sealed, err := apply.From(ctx, c, live, sealed, r.Owner)
	return sealed, err
}

func (r Roles) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

// judgeLive is like CheckBindings, but also checks bindings that are missing or outdated in the cache.
func (r Roles) judgeLive(ctx context.Context, live, role *unstructured.Unstructured) error {
	if err := r.judgeUnseen(ctx, role); err != nil {
		return err
	}
	return r.CheckBindings(ctx, live, role)
}

// isExposed reports whether another user may have bound the Role while it did not have its rules. A Role that does not exist is exposed
// if it is in a target namespace other than the operator's own: users of the target may have created, bound and deleted it, even if the
// cache does not show this. In the operator's own namespace, a Role that does not exist is exposed if the cache has a binding to it,
// even one without subjects; a new install has no such binding, so it needs no additional requests there.
func (r Roles) isExposed(live, role *unstructured.Unstructured) (bool, error) {
	if live != nil {
		return !sameRules(live, role), nil
	}
	if role.GetNamespace() != r.Owner.Namespace {
		return true, nil
	}
	bindings, err := r.RBAC.Untracked().RoleBindings.RoleBindings(role.GetNamespace()).List(labels.Everything())
	if err != nil {
		return false, fmt.Errorf("list RoleBindings in namespace %q: %w", role.GetNamespace(), err)
	}
	return slices.ContainsFunc(bindings, func(b *rbacv1.RoleBinding) bool {
		return b.RoleRef.Kind == "Role" && b.RoleRef.Name == role.GetName()
	}), nil
}

// judgeAll judges those of the RoleBindings that refer to a Role and have subjects.
func (r Roles) judgeAll(ctx context.Context, role *unstructured.Unstructured, bindings []*rbacv1.RoleBinding) error {
	for _, b := range bindings {
		_, _ = r.RBAC.RoleBindings.RoleBindings(b.Namespace).Get(b.Name) // tracks the lookup
		if b.RoleRef.Kind == "Role" && b.RoleRef.Name == role.GetName() && len(b.Subjects) > 0 {
			if err := r.judge(ctx, b, role); err != nil {
				return err
			}
		}
	}
	return nil
}

// sealedAt returns the time at which a Role was sealed, or the zero time if it is not sealed. This time is untrusted,
// because users who may write the Role can set it.
func sealedAt(live *unstructured.Unstructured) time.Time {
	role := &rbacv1.Role{}
	if live == nil || apply.Decode(live, role) != nil || len(role.Rules) == 0 || len(role.Rules[0].ResourceNames) != 1 {
		return time.Time{}
	}
	rest, isSeal := strings.CutPrefix(role.Rules[0].ResourceNames[0], sealPrefix)
	text, _, _ := strings.Cut(rest, ":")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if !isSeal || err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// sealedFor restricts all rules of a role to a name that no object can have. If the name were possible, "escalate" or
// "bind" on it would let the subjects of the role's bindings create a role with that name and grant it all permissions.
// Rules with URLs cannot be restricted in this way and are omitted; ok is false if no rules are left.
func sealedFor(role *unstructured.Unstructured, now time.Time) (sealed *unstructured.Unstructured, ok bool) {
	absent := sealPrefix + strconv.FormatInt(now.Unix(), 10) + ":" + rand.Text()
	return withRules(role, func(rule map[string]any) bool {
		rule["resourceNames"] = []any{absent}
		return rule["nonResourceURLs"] == nil
	})
}

// withoutNames omits the rules that have resource names.
func withoutNames(role *unstructured.Unstructured) *unstructured.Unstructured {
	out, _ := withRules(role, func(rule map[string]any) bool { return rule["resourceNames"] == nil })
	return out
}

// withRules returns a copy of a role with the rules that keep returns true for, after keep has changed them. ok is false if there are none.
func withRules(role *unstructured.Unstructured, keep func(rule map[string]any) bool) (out *unstructured.Unstructured, ok bool) {
	out = role.DeepCopy()
	rules, _, _ := unstructured.NestedSlice(out.Object, "rules")
	kept := slices.DeleteFunc(rules, func(rule any) bool {
		fields, isMap := rule.(map[string]any)
		return !isMap || !keep(fields)
	})
	out.Object["rules"] = kept
	return out, len(kept) > 0
}
