package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// children lists, from the cache, the RBAC objects that carry this CSV's marks, bindings first: that
// is the order of removal. Marks are hints; whether an object may be deleted is for the API server to
// say to the account.
func (r *Reconciler) children(ctx context.Context, owner ownerutil.Owner) ([]client.Object, error) {
	marks := client.MatchingLabels{
		names.LabelLineage:        owner.Mark(),
		names.LabelOwner:          ownerutil.LabelValue(owner.CSV),
		names.LabelOwnerNamespace: owner.Namespace,
	}
	var out []client.Object
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{},
	} {
		if err := r.client.List(ctx, list, marks); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok && obj.GetDeletionTimestamp() == nil {
				out = append(out, obj)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// prune removes the roles and bindings that were rendered from the CSV's permissions and are wanted no
// more: a namespace that is no target any longer is not the operator's to work in. Where the account
// may not, that is noted: an install does not stop for it.
func (r *Reconciler) prune(ctx context.Context, s *scope, want []*unstructured.Unstructured) error {
	have, err := r.children(ctx, s.owner)
	if err != nil {
		return err
	}
	for _, obj := range have {
		_, rendered := obj.GetLabels()[names.LabelPermissionsHash]
		if !rendered || slices.ContainsFunc(want, func(w *unstructured.Unstructured) bool { return r.same(w, obj) }) {
			continue
		}
		err := r.remove(ctx, s, obj)
		if err != nil && refusal(err) || asLacks(err) {
			s.facts.Notes = append(s.facts.Notes, oneLine(err))
			continue
		}
		if err != nil {
			return err
		}
		s.facts.Settling = true
	}
	return nil
}

func (r *Reconciler) same(want *unstructured.Unstructured, obj client.Object) bool {
	return want.GetName() == obj.GetName() && want.GetNamespace() == obj.GetNamespace() && want.GetKind() == r.kind(obj)
}

func (r *Reconciler) kind(obj client.Object) string {
	gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
	if err != nil {
		return ""
	}
	return gvk.Kind
}

// describe names an object as people do.
func (r *Reconciler) describe(obj client.Object) string { return apply.Describe(r.reference(obj)) }

// reference is an object's kind and name.
func (r *Reconciler) reference(obj client.Object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(rbacv1.SchemeGroupVersion.String())
	u.SetKind(r.kind(obj))
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	return u
}

// remove deletes just the object that was looked at, as the account; one that is gone is no error. What
// the account is not allowed is a *LacksError and not tried.
func (r *Reconciler) remove(ctx context.Context, s *scope, obj client.Object) error {
	if err := lacks(r.rbac, r.client.RESTMapper(), s.account, []*unstructured.Unstructured{r.reference(obj)}, "delete"); err != nil {
		return err
	}
	uid := obj.GetUID()
	err := s.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

func asLacks(err error) bool {
	var lacks *LacksError
	return errors.As(err, &lacks)
}

func asIdentity(err error) bool {
	var identity *deployment.IdentityError
	return errors.As(err, &identity)
}
