package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// finalize deletes, as the account, what garbage collection does not: cluster-scoped objects of a deleted CSV and
// objects in other namespaces. If there is no account left, it reports the remaining objects by name with the
// commands that delete them, and removes the finalizer nevertheless, so that no namespace remains terminating
// (security model, rule 6).
func (r *Reconciler) finalize(ctx context.Context, s *scope) error {
	if !controllerutil.ContainsFinalizer(s.csv, names.FinalizerCSV) {
		return nil
	}
	if gone, err := r.isGone(ctx, s); gone || err != nil {
		return err
	}
	if err := r.gatherSiblings(ctx, s); err != nil {
		return err
	}
	left, err := r.callers(ctx, s)
	if err != nil {
		return err
	}
	children, err := r.children(ctx, s.owner)
	if err != nil {
		return err
	}
	left = append(left, slices.DeleteFunc(children, func(o client.Object) bool { return o.GetNamespace() == s.csv.Namespace })...)
	account, why := r.cleaner(ctx, s)
	if why != nil && scoped.ReasonOf(why) == "" {
		return why
	}
	if why == nil {
		if waiting, err := r.stopAndRemove(ctx, s, account, left); waiting || err != nil {
			return err
		}
	} else if len(left) > 0 {
		log.FromContext(ctx).Info("Leaving objects behind", "why", why.Error(), "objects", len(left))
		r.leftBehind(s.csv, left, oneLine(why))
	}
	return r.dropFinalizer(ctx, s, account)
}

// stopAndRemove is removeAll for a CSV whose operator may have to be stopped before.
func (r *Reconciler) stopAndRemove(ctx context.Context, s *scope, account client.Client, left []client.Object) (waiting bool, err error) {
	running, err := r.running(ctx, s, left)
	if err != nil {
		return false, err
	}
	return r.removeAll(ctx, s, account, append(running, left...))
}

// isGone reports whether the cache is outdated: the objects of a CSV that no longer exists must not be removed
// again. What is still converted is converted by the version that replaced it.
func (r *Reconciler) isGone(ctx context.Context, s *scope) (bool, error) {
	live := r.reference(s.csv)
	err := r.lookup.Reader.Get(ctx, client.ObjectKeyFromObject(s.csv), live)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return live.GetUID() != s.csv.UID, nil
}

// callers returns, in the order of removal, what makes the API server call the operator: this CSV's webhooks and
// APIs, and the CustomResourceDefinitions whose conversion it had set. A replacing version continues to convert them.
func (r *Reconciler) callers(ctx context.Context, s *scope) ([]client.Object, error) {
	out, converted, err := hooks.Remains(ctx, r.client, s.owner, client.MatchingFields{lineageIndex: s.owner.Mark()})
	if s.facts.ReplacedBy == "" {
		for _, crd := range converted {
			out = append(out, crd)
		}
	}
	return out, err
}

// leave removes what calls an operator whose namespace is terminating, so that the termination can complete. The
// account is deleted seconds later as well. What cannot be removed is reported when the CSV itself is deleted.
func (r *Reconciler) leave(ctx context.Context, s *scope) error {
	if err := r.gatherSiblings(ctx, s); err != nil {
		return err
	}
	left, err := r.callers(ctx, s)
	if err != nil || len(left) == 0 {
		return err
	}
	account, err := r.cleaner(ctx, s)
	switch {
	case scoped.ReasonOf(err) != "":
		return nil // there is no account left to remove it
	case err != nil:
		return client.IgnoreNotFound(err)
	}
	running, err := r.running(ctx, s, left)
	if err != nil {
		return err
	}
	for _, obj := range append(running, left...) {
		if err := r.removeOrReset(ctx, s, account, obj); err != nil && !isDenied(err) && !isRunning(err) {
			return err
		}
	}
	return nil
}

// running returns the operator's Deployments if a conversion is to be reset, and records them in the scope. Without
// the conversion, the API server drops the fields that the requested version does not have. An operator that still
// runs would read objects without these fields and lose them with its next update. So the Deployments are deleted
// first, and their Pods with them.
func (r *Reconciler) running(ctx context.Context, s *scope, left []client.Object) ([]client.Object, error) {
	resets := slices.ContainsFunc(left, func(obj client.Object) bool {
		_, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		return ok
	})
	if !resets {
		return nil, nil
	}
	list := &appsv1.DeploymentList{}
	labels := client.MatchingLabels{names.LabelOwner: ownerutil.LabelValue(s.csv.Name)}
	if err := r.client.List(ctx, list, client.InNamespace(s.csv.Namespace), labels); err != nil {
		return nil, fmt.Errorf("list Deployments of namespace %q: %w", s.csv.Namespace, err)
	}
	var out []client.Object
	for i := range list.Items {
		if deployment.Of(&list.Items[i], s.owner) {
			out = append(out, &list.Items[i])
		}
	}
	s.running = len(out)
	return out, nil
}

// stop deletes a Deployment. The API server keeps the Deployment until the garbage collector has removed its Pods.
func (r *Reconciler) stop(ctx context.Context, s *scope, account client.Client, d *appsv1.Deployment) error {
	if d.DeletionTimestamp != nil {
		return nil
	}
	r.recorder.Eventf(s.csv, d, corev1.EventTypeNormal, eventStopping, "Finalize", "%s",
		note("deleting Deployment "+d.Namespace+"/"+d.Name+": conversions are reset when its Pods have terminated, so that the operator does not overwrite objects which are no longer converted"))
	return r.remove(ctx, s, account, d, client.PropagationPolicy(metav1.DeletePropagationForeground))
}

// errRunning is returned instead of resetting a conversion while the operator may be running.
var errRunning = errors.New("the operator's Pods have not terminated")

func isRunning(err error) bool { return errors.Is(err, errRunning) }

// removeOrReset deletes an object or, for a CustomResourceDefinition, removes its webhook once the operator is stopped.
func (r *Reconciler) removeOrReset(ctx context.Context, s *scope, account client.Client, obj client.Object) error {
	if d, ok := obj.(*appsv1.Deployment); ok {
		return r.stop(ctx, s, account, d)
	}
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return r.remove(ctx, s, account, obj)
	}
	if s.running > 0 {
		return errRunning // the deletion of the last Deployment triggers another reconcile
	}
	if err := r.missingPermissions(ctx, s, forRemoval, []*unstructured.Unstructured{r.reference(crd)}, "patch"); err != nil {
		return err
	}
	_, err := r.installer(s, account).Reset(ctx, []*apiextensionsv1.CustomResourceDefinition{crd})
	return err
}

// removeAll keeps the finalizer, and reports what remains, while there is an account that can be granted the missing
// permissions, or while the operator is being stopped. If the API server refuses although the account has the permissions, it retries: the API server may not
// have observed a grant yet.
func (r *Reconciler) removeAll(ctx context.Context, s *scope, account client.Client, left []client.Object) (waiting bool, err error) {
	var remain []client.Object
	var why, again error
	for _, obj := range left {
		err := r.removeOrReset(ctx, s, account, obj)
		switch {
		case err == nil:
			continue
		case isRunning(err):
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
	log.FromContext(ctx).Info("Waiting for permission to remove objects", "objects", len(remain), "why", why.Error())
	r.leftBehind(s.csv, remain, oneLine(why))
	return true, again
}

// cleaner returns a client for the removal: the account's or else the default account's.
func (r *Reconciler) cleaner(ctx context.Context, s *scope) (client.Client, error) {
	account, _, err := r.lookup.Account(ctx, s.csv.Namespace)
	if err == nil {
		err = r.actAs(ctx, s, account)
	}
	if scoped.ReasonOf(err) != "" {
		fallback := &operatorsv1.OperatorGroup{}
		fallback.Namespace = s.csv.Namespace
		account, other := r.lookup.AccountOf(ctx, fallback)
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

// actAs opens the client of an account.
func (r *Reconciler) actAs(ctx context.Context, s *scope, account scoped.Account) error {
	s.account = account
	own, err := r.clientFor(ctx, account)
	if err == nil {
		s.acting = warrant.Of(own)
	}
	return err
}

// dropFinalizer removes Remit's finalizer: as the account if it may, and otherwise as the controller identity.
func (r *Reconciler) dropFinalizer(ctx context.Context, s *scope, account client.Client) error {
	after := s.csv.DeepCopy()
	controllerutil.RemoveFinalizer(after, names.FinalizerCSV)
	patch := client.MergeFromWithOptions(s.csv, client.MergeFromWithOptimisticLock{})
	var err error
	if account != nil {
		if err = account.Patch(ctx, after.DeepCopy(), patch); client.IgnoreNotFound(err) == nil {
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
