package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// finalize removes, as-account, what garbage collection cannot: the cluster-scoped objects of a deleted
// CSV and those in other namespaces. Where nobody is left to do it as, what remains is reported, by
// name and with the commands that remove it, and the finalizer goes all the same, so that no namespace
// hangs (security model, rule 6).
func (r *Reconciler) finalize(ctx context.Context, s *scope) error {
	if !controllerutil.ContainsFinalizer(s.csv, names.FinalizerCSV) {
		return nil
	}
	if err := r.gatherSiblings(ctx, s); err != nil {
		return err
	}
	left, err := r.children(ctx, s.owner)
	if err != nil {
		return err
	}
	left = slices.DeleteFunc(left, func(o client.Object) bool { return o.GetNamespace() == s.csv.Namespace })
	why := r.cleaner(ctx, s)
	if why != nil && scoped.ReasonOf(why) == "" {
		return why
	}
	if why == nil {
		for _, obj := range left {
			if err := r.remove(ctx, s, obj); err != nil {
				return r.waitForRights(ctx, s.csv, obj, err)
			}
		}
	} else if len(left) > 0 {
		log.FromContext(ctx).Info("Leaving objects behind", "why", why.Error(), "objects", len(left))
		r.leftBehind(s.csv, left, oneLine(why))
	}
	return r.dropFinalizer(ctx, s)
}

// cleaner finds a client for the removal: the account's, or else the default account's.
func (r *Reconciler) cleaner(ctx context.Context, s *scope) error {
	account, _, err := r.lookup.Account(ctx, s.csv.Namespace)
	if err == nil {
		s.account = account
		s.client, err = r.accounts.For(ctx, account)
	}
	if scoped.ReasonOf(err) == "" {
		return err
	}
	fallback := &operatorsv1.OperatorGroup{}
	fallback.Namespace = s.csv.Namespace
	account, other := r.lookup.AccountOf(ctx, fallback)
	if other != nil {
		return err
	}
	s.account = account
	s.client, other = r.accounts.For(ctx, account)
	return other
}

// waitForRights keeps the finalizer while there is an account that may be granted what it lacks. What is
// refused although the account holds it is tried again: the API server may not know of a grant yet.
func (r *Reconciler) waitForRights(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, obj client.Object, err error) error {
	if !apierrors.IsForbidden(err) && !asLacks(err) {
		return err
	}
	log.FromContext(ctx).Info("Waiting to be allowed to remove", "object", r.describe(obj), "why", err.Error())
	r.leftBehind(csv, []client.Object{obj}, oneLine(err))
	if asLacks(err) {
		return nil
	}
	return err
}

// dropFinalizer removes the one finalizer that is ours: as-account where there is one that may, and
// else as self.
func (r *Reconciler) dropFinalizer(ctx context.Context, s *scope) error {
	after := s.csv.DeepCopy()
	controllerutil.RemoveFinalizer(after, names.FinalizerCSV)
	patch := client.MergeFromWithOptions(s.csv, client.MergeFromWithOptimisticLock{})
	var err error
	if s.client != nil {
		if err = s.client.Patch(ctx, after.DeepCopy(), patch); client.IgnoreNotFound(err) == nil {
			return nil
		}
		if !apierrors.IsForbidden(err) && scoped.ReasonOf(err) == "" {
			return fmt.Errorf("remove finalizer as %s: %w", s.account.Key(), err)
		}
	}
	own := r.client.Patch(ctx, after, patch)
	if apierrors.IsForbidden(own) {
		r.stuck(s.csv)
	}
	if client.IgnoreNotFound(own) != nil {
		return errors.Join(err, fmt.Errorf("remove finalizer: %w", own))
	}
	return nil
}
