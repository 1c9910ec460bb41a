package csv

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// isInert reports whether a CSV is a copy: it is labeled as one, or Remit created it as one and its label was removed.
func (r *Reconciler) isInert(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return isCopy(csv) || r.IsCopy != nil && r.IsCopy(csv)
}

// read reads a CSV. exists is false if there is nothing to do for it: it does not exist, or it is labeled as a copy and does not wait
// for its finalizer.
func (r *Reconciler) read(ctx context.Context, key client.ObjectKey, csv *operatorsv1alpha1.ClusterServiceVersion) (exists bool, err error) {
	err = r.Client.Get(ctx, key, csv)
	if err == nil {
		return true, nil
	}
	r.forget(key)
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	labeled, err := r.labeled(ctx, key)
	switch {
	case err != nil:
		return false, err
	case labeled == nil:
		return false, r.removeOrphans(ctx, key)
	}
	return r.readStuck(ctx, labeled, csv)
}

// readStuck reads a CSV that is labeled as a copy and waits for its finalizer. Such a CSV can be large and is not in the cache, so only
// its metadata is read. It determines what the CSV has installed, because the lineage of a direct CSV that has installed anything is
// its own, or in its annotations.
func (r *Reconciler) readStuck(ctx context.Context, labeled client.Object, csv *operatorsv1alpha1.ClusterServiceVersion) (exists bool, err error) {
	if !isStuck(labeled) {
		return false, nil
	}
	live := kit.Copy()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(labeled), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	live.ObjectMeta.DeepCopyInto(&csv.ObjectMeta)
	return isStuck(csv), nil
}

// labeled returns the metadata of a CSV that is labeled as a copy, or nil if there is none.
func (r *Reconciler) labeled(ctx context.Context, key client.ObjectKey) (client.Object, error) {
	if r.Copies == nil {
		return nil, nil
	}
	obj := kit.Copy()
	err := r.Copies.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get copied ClusterServiceVersion %s: %w", key, err)
	}
	return obj, nil
}

// isStuck reports whether a CSV is being deleted and waits for Remit's finalizer. Such a CSV is finalized even if it is labeled as a
// copy. Otherwise, any user who may label an installed CSV as a copy could prevent its cleanup. Finalizers of others are of no
// concern.
func isStuck(obj client.Object) bool {
	return obj.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(obj, names.FinalizerCSV)
}

// watchCopies adds a watch of the copies that have to be finalized.
func (r *Reconciler) watchCopies(b *builder.Builder) *builder.Builder {
	if r.Copies == nil {
		return b
	}
	return b.WatchesRawSource(source.Kind[client.Object](r.Copies, kit.Copy(), &handler.EnqueueRequestForObject{}, predicate.NewPredicateFuncs(isStuck)))
}
