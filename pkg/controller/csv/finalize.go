package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// finalize deletes, as the account, the objects of a deleted CSV that garbage collection does not delete:
// cluster-scoped objects and objects in other namespaces. If there is no account left, it reports the remaining objects
// by name with the commands that delete them, and still removes the finalizer, so that no namespace is stuck in phase
// Terminating (security model, rule 6).
func (r *Reconciler) finalize(ctx context.Context, s *scope) error {
	if !controllerutil.ContainsFinalizer(s.csv, names.FinalizerCSV) {
		return nil
	}
	if deleted, err := r.isDeleted(ctx, s); deleted || err != nil {
		return err
	}
	if err := r.gatherSiblings(ctx, s); err != nil {
		return err
	}
	account, why := r.cleaner(ctx, s)
	if why != nil && scoped.ReasonOf(why) == "" {
		return why
	}
	left, err := r.toRemove(ctx, s, why == nil)
	if err != nil {
		return err
	}
	if why == nil {
		if waiting, err := r.removeAll(ctx, s, account, left); waiting || err != nil {
			return err
		}
	} else if len(left) > 0 {
		log.FromContext(ctx).Info("Leaving objects behind", "reason", why.Error(), "objects", len(left))
		r.leftBehind(s.csv, left, summary(why))
	}
	return r.dropFinalizer(ctx, s, account)
}

// toRemove returns the objects that garbage collection does not delete, in the order of removal: the webhooks and APIs
// that the operator serves, the operator's Deployments if the operator has to be stopped, roles and bindings in other
// namespaces, and CustomResourceDefinitions whose conversion is to be reset.
func (r *Reconciler) toRemove(ctx context.Context, s *scope, stop bool) ([]client.Object, error) {
	left, converted, err := r.callers(ctx, s, stop)
	if err != nil {
		return nil, err
	}
	children, err := r.children(ctx, s.owner)
	outside := slices.DeleteFunc(children, func(o client.Object) bool { return o.GetNamespace() == s.csv.Namespace })
	return slices.Concat(left, outside, converted), err
}

// isDeleted reports whether the cached CSV no longer exists in the API server. The objects of such a CSV must not be
// removed again, because the version that replaced it may use the remaining conversions.
func (r *Reconciler) isDeleted(ctx context.Context, s *scope) (bool, error) {
	live := kit.Copy()
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.csv), live)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return live.GetUID() != s.csv.UID, nil
}

// callers returns the objects that make the API server call the operator: objs contains this CSV's webhooks and APIs,
// and converted the CustomResourceDefinitions whose conversion is to be reset. A conversion is not reset if another CSV
// replaces this CSV, if the CSV's dependents are to be orphaned, or if the CSV is being deleted and another version of
// its lineage still converts the kind. If the operator has to be stopped before the reset, its Deployments are the last
// elements of objs.
func (r *Reconciler) callers(ctx context.Context, s *scope, stop bool) (objs, converted []client.Object, err error) {
	objs, crds, err := hooks.Remains(ctx, r.Client, s.owner, client.MatchingFields{kit.LineageIndex: s.owner.ShortMark()})
	if err != nil || s.facts.ReplacedBy != "" || r.orphaning.Includes(s.csv) {
		return objs, nil, err
	}
	for _, crd := range crds {
		if s.csv.DeletionTimestamp == nil || !s.convertedBySibling(crd) {
			converted = append(converted, crd)
		}
	}
	if !stop || len(converted) == 0 {
		return objs, converted, nil
	}
	running, err := r.deploymentsToStop(ctx, s)
	return append(objs, running...), converted, err
}

// detach removes the webhooks, APIs and conversions of an operator whose namespace is terminating, so that the namespace
// can be deleted. It deletes the operator's Deployments but does not wait for its Pods, because the account is about to
// be deleted as well. Objects that cannot be removed are reported when the CSV itself is deleted.
func (r *Reconciler) detach(ctx context.Context, s *scope) error {
	if err := r.gatherSiblings(ctx, s); err != nil {
		return err
	}
	left, converted, err := r.callers(ctx, s, true)
	if err != nil || len(left)+len(converted) == 0 {
		return err
	}
	s.running = 0
	account, err := r.cleaner(ctx, s)
	switch {
	case scoped.ReasonOf(err) != "":
		return nil // no account is left that could remove them
	case err != nil:
		return client.IgnoreNotFound(err)
	}
	all := slices.Concat(left, converted)
	for _, obj := range all {
		err := s.turn.remove(taskFinalize, obj, func() error { return r.removeOrReset(ctx, s, account, obj) })
		if errors.Is(err, errTurn) {
			s.interrupt(taskFinalize, len(all))
			return nil
		}
		if err != nil && !isDenied(err) {
			return err
		}
	}
	return nil
}

// removeOrReset deletes an object. For a CustomResourceDefinition, it instead removes the conversion webhook once the
// operator has stopped, and returns errRunning until then.
func (r *Reconciler) removeOrReset(ctx context.Context, s *scope, account client.Client, obj client.Object) error {
	if d, ok := obj.(*appsv1.Deployment); ok {
		return r.stop(ctx, s, account, d)
	}
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return r.remove(ctx, s, account, obj)
	}
	if s.running > 0 {
		return errRunning
	}
	if err := r.missingPermissions(ctx, s, forRemoval, []*unstructured.Unstructured{r.reference(crd)}, "patch"); err != nil {
		return err
	}
	_, err := r.installer(s, account).Reset(ctx, []*apiextensionsv1.CustomResourceDefinition{crd})
	return err
}

// maxAwaited is the maximum time that the removal of a CSV waits for permission to remove what is in other namespaces than its own. Users
// of one target could otherwise prevent the removal, and with it the end of an upgrade (docs/adr/0093). What remains is then found without
// the CSV (docs/adr/0082).
const maxAwaited = 5 * time.Minute

// awaits reports whether the removal of the CSV waits until the remaining objects can be removed.
func (r *Reconciler) awaits(s *scope, remain []client.Object) bool {
	if slices.ContainsFunc(remain, func(o client.Object) bool { return !s.isElsewhere(o.GetNamespace()) }) || s.csv.DeletionTimestamp == nil {
		return true
	}
	left := s.csv.DeletionTimestamp.Add(maxAwaited).Sub(r.Clock.Now())
	s.wakeAfter(max(left, 0))
	return left > 0
}

// showRemoval ends a turn of a CSV that is being deleted, and shows its progress in the status. Of a CSV that is labeled as a copy, the
// status is not known.
func (r *Reconciler) showRemoval(ctx context.Context, s *scope) (ctrl.Result, error) {
	r.endTurn(s)
	if s.facts.Progress == "" || s.csv.Status.Phase == phaseNone {
		return ctrl.Result{RequeueAfter: s.after}, nil
	}
	s.pass(reportProgress(s.facts, stay(s.facts)))
	return r.finish(ctx, s)
}

// removeAll removes the objects and reports the remaining ones. waiting is true, and the finalizer is kept, while the
// account is missing permissions, the operator is being stopped, or objects wait for another turn. In other namespaces than the CSV's own, it waits for permissions
// only for maxAwaited. If the API server refuses a request although the
// account appears to have the permissions, removeAll returns the error so that the removal is retried, because the API
// server may not have observed a grant yet.
func (r *Reconciler) removeAll(ctx context.Context, s *scope, account client.Client, left []client.Object) (waiting bool, err error) {
	var remain []client.Object
	var why, again error
	for _, obj := range left {
		err := errRunning
		if !isDeployment(obj) || len(remain) == 0 { // an operator that is still called must continue to run
			err = s.turn.remove(taskFinalize, obj, func() error { return r.removeOrReset(ctx, s, account, obj) })
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errTurn):
			s.interrupt(taskFinalize, len(left))
			return true, nil
		case errors.Is(err, errRunning):
			waiting = true
			continue
		case !isDenied(err):
			return false, err
		case !isMissingPermissions(err):
			again = err
		}
		why = err
		remain = append(remain, obj)
	}
	if len(remain) == 0 {
		return waiting, nil
	}
	r.leftBehind(s.csv, remain, summary(why))
	if !r.awaits(s, remain) {
		log.FromContext(ctx).Info("Leaving objects behind", "objects", len(remain), "reason", why.Error())
		return waiting, nil
	}
	log.FromContext(ctx).Info("Waiting for permission to remove objects", "objects", len(remain), "reason", why.Error())
	return true, again
}

// cleaner returns a client for removing objects: the account's client or, if the account cannot be used, the default
// account's.
func (r *Reconciler) cleaner(ctx context.Context, s *scope) (client.Client, error) {
	account, group, err := r.Default.Lookup(r.Live).Account(ctx, s.csv.Namespace)
	if left := scoped.CheckNotLeft(group); left != nil {
		return nil, left
	}
	if err == nil {
		err = r.actAs(ctx, s, account)
	}
	if scoped.ReasonOf(err) != "" {
		fallback := &operatorsv1.OperatorGroup{}
		fallback.Namespace = s.csv.Namespace
		account, other := r.Default.Lookup(r.Live).AccountOf(ctx, fallback)
		if other != nil {
			return nil, err
		}
		err = r.actAs(ctx, s, account)
	}
	if err != nil {
		return nil, err
	}
	return s.writer(warrant.CleanUp)
}

// actAs sets the account that this reconcile acts as, and opens a client that acts as the account.
func (r *Reconciler) actAs(ctx context.Context, s *scope, account scoped.Account) error {
	s.account = account
	own, err := r.clientFor(ctx, account)
	if err == nil {
		s.acting = warrant.Of(own)
	}
	return err
}

// metadataOf returns two objects for a patch of a CSV's metadata. The patch is computed from maps of both, which can take ten times the
// memory of a CSV with its spec.
func metadataOf(csv *operatorsv1alpha1.ClusterServiceVersion) (before, after *metav1.PartialObjectMetadata) {
	before = kit.Copy()
	csv.ObjectMeta.DeepCopyInto(&before.ObjectMeta)
	after = before.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	return before, after
}

// dropFinalizer removes Remit's finalizer as the account or, if that is not permitted, as the controller identity. The patch, and the
// response to it, contain only metadata.
func (r *Reconciler) dropFinalizer(ctx context.Context, s *scope, account client.Client) error {
	before, after := metadataOf(s.csv)
	controllerutil.RemoveFinalizer(after, names.FinalizerCSV)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	var err error
	if account != nil {
		if err = account.Patch(ctx, after.DeepCopy(), patch); client.IgnoreNotFound(err) == nil {
			return nil
		}
		if !apierrors.IsForbidden(err) && scoped.ReasonOf(err) == "" {
			return fmt.Errorf("remove finalizer as %s: %w", s.account.Key(), err)
		}
	}
	own := r.Client.Patch(ctx, after, patch)
	if apierrors.IsForbidden(own) {
		r.stuck(s.csv)
	}
	if client.IgnoreNotFound(own) != nil {
		return errors.Join(err, fmt.Errorf("remove finalizer: %w", own))
	}
	return nil
}
