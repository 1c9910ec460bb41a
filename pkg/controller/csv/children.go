package csv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// rbacOfLineage lists the cached RBAC objects that installs of this lineage created and that are not being deleted. The
// API server decides whether the account may delete them.
func (r *Reconciler) rbacOfLineage(ctx context.Context, owner ownerutil.Owner) ([]client.Object, error) {
	all, err := r.provenRBAC(ctx, owner)
	return slices.DeleteFunc(all, func(o client.Object) bool { return o.GetDeletionTimestamp() != nil }), err
}

// provenRBAC is like rbacOfLineage, but includes objects that are being deleted: a finalizer can keep them in effect.
func (r *Reconciler) provenRBAC(ctx context.Context, owner ownerutil.Owner) ([]client.Object, error) {
	var out []client.Object
	for _, list := range kit.RBACLists() {
		err := r.Client.List(ctx, list, client.MatchingFields{kit.LineageIndex: owner.ShortMark()}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		var found []client.Object
		err = meta.EachListItem(list, func(o runtime.Object) error {
			obj, ok := o.(client.Object)
			if ok && obj.GetLabels()[names.LabelOwnerNamespace] == owner.Namespace && owner.Owns(obj) {
				found = append(found, obj)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(found, func(a, b client.Object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
		out = append(out, found...)
	}
	return out, nil
}

// children returns the objects of the lineage that were created for this CSV.
func (r *Reconciler) children(ctx context.Context, owner ownerutil.Owner) ([]client.Object, error) {
	all, err := r.rbacOfLineage(ctx, owner)
	return createdFor(owner, all), err
}

// createdFor returns the objects that were created for a CSV.
func createdFor(owner ownerutil.Owner, objs []client.Object) []client.Object {
	return slices.DeleteFunc(objs, func(o client.Object) bool {
		return o.GetLabels()[names.LabelOwner] != ownerutil.LabelValue(owner.CSV)
	})
}

// prune deletes roles and bindings that were rendered from the CSV's permissions and are no longer needed, because the
// operator must not keep permissions outside its current targets. If the account is not allowed to delete an object,
// prune adds a note and the install continues.
func (r *Reconciler) prune(ctx context.Context, s *scope, account client.Client, want []*unstructured.Unstructured) error {
	have, err := r.children(ctx, s.owner)
	if err != nil {
		return err
	}
	wanted := make(map[string]bool, len(want))
	for _, obj := range want {
		wanted[apply.Describe(obj)] = true
	}
	have = slices.DeleteFunc(have, func(obj client.Object) bool {
		_, rendered := obj.GetLabels()[names.LabelPermissionsHash]
		return !rendered || wanted[apply.Describe(obj)]
	})
	for _, obj := range have {
		err := s.turn.remove(taskPrune, obj, func() error { return r.remove(ctx, s, account, obj) })
		if errors.Is(err, errTurn) {
			s.interrupt(taskPrune, len(have))
			return err
		}
		if err != nil && refusal(err) || isMissingPermissions(err) {
			s.facts.Notes = append(s.facts.Notes, summary(err)+": "+r.command(obj))
			continue
		}
		if err != nil {
			return err
		}
		s.facts.Unsynced = true
	}
	return nil
}

// reference returns an object that contains only the kind, namespace and name of obj.
func (r *Reconciler) reference(obj client.Object) *unstructured.Unstructured {
	gvk, _ := apiutil.GVKForObject(obj, r.Client.Scheme()) // the scheme contains the kind of every object that is passed here
	return apply.Reference(gvk, obj.GetNamespace(), obj.GetName())
}

// isDenied reports whether an error means that the account is not allowed to send a request.
func isDenied(err error) bool { return isMissingPermissions(err) || apierrors.IsForbidden(err) }

// remove deletes an object as the account, unless another object with the same name has replaced it. It ignores objects
// that no longer exist. If the account is known to be missing the permission, remove returns a *MissingPermissionsError
// without sending a request.
func (r *Reconciler) remove(ctx context.Context, s *scope, account client.Client, obj client.Object, opts ...client.DeleteOption) error {
	if err := r.missingPermissions(ctx, s, forRemoval, []*unstructured.Unstructured{r.reference(obj)}, "delete"); err != nil {
		return err
	}
	return apply.Delete(ctx, account, obj, opts...)
}

func isMissingPermissions(err error) bool { return kit.Is[*MissingPermissionsError](err) }
