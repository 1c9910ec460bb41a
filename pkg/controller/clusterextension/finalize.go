package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// delayDeletion sets the finalizer if CustomResourceDefinitions with a conversion webhook are to be kept, and removes it
// otherwise: without its operator, such a webhook makes objects unreadable (docs/adr/0049).
func (s *run) delayDeletion(ctx context.Context) error {
	keep := assess.KeepsCRDs(s.ext)
	if keep && len(s.rendered.Hooks.Conversions()) == 0 {
		converted, err := s.conversions(ctx)
		if err != nil {
			return err
		}
		keep = len(converted) > 0
	}
	if keep == controllerutil.ContainsFinalizer(s.ext, names.FinalizerExtension) {
		return nil
	}
	return s.setFinalizer(ctx, keep)
}

// setFinalizer sets or removes the finalizer as the controller identity, because the extension's identity may have lost
// its permissions.
func (s *run) setFinalizer(ctx context.Context, keep bool) error {
	after := s.saved.DeepCopy()
	if keep {
		controllerutil.AddFinalizer(after, names.FinalizerExtension)
	} else {
		controllerutil.RemoveFinalizer(after, names.FinalizerExtension)
	}
	err := s.Client.Patch(ctx, after, client.MergeFromWithOptions(s.saved, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errStale
	case err != nil:
		return fmt.Errorf("change the finalizer: %w", err)
	}
	for _, ext := range []*olmv1.ClusterExtension{s.saved, s.ext} {
		ext.Finalizers, ext.ResourceVersion = after.Finalizers, after.ResourceVersion
	}
	return nil
}

// finalize resets the conversions of the CustomResourceDefinitions that a deleted extension keeps, and removes the
// finalizer. If the identity cannot do this, finalize emits a Warning Event and removes the finalizer anyway, because
// the deletion of an extension must not require permissions.
func (r *Reconciler) finalize(ctx context.Context, ext *olmv1.ClusterExtension) (ctrl.Result, error) {
	r.watches.release(ext.Name)
	s := newRun(r, ext.DeepCopy())
	defer s.finish()
	r.memory.beginFinalizing(ext.Name)
	out, err := s.finishConversions(ctx)
	switch {
	case errors.Is(err, errStale):
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	case s.givesUp(err):
		s.warnAboutConversions(err)
	case err != nil:
		return ctrl.Result{}, err
	case out.stopped:
		s.setProgressing(out)
		_, err := s.save(ctx)
		return ctrl.Result{RequeueAfter: s.after}, err
	}
	err = s.setFinalizer(ctx, false)
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	}
	if err == nil {
		r.forget(ext.Name)
	}
	return ctrl.Result{}, err
}

// maxFailing is the maximum time for which the finalization of a deleted extension may fail.
const maxFailing = 10 * time.Minute

// givesUp reports whether to delete the extension although the conversions could not be reset: the identity cannot be
// used or was refused, a Deployment refers to the extension but does not belong to it, or all attempts have failed for
// longer than maxFailing.
func (s *run) givesUp(err error) bool {
	failing := s.memory.failingFor(s.key(), err, s.Clock.Now())
	_, isUnusable := errors.AsType[*scoped.Error](err)
	_, isCollision := errors.AsType[*apply.CollisionError](err)
	return s.unusable != nil || isUnusable || isCollision || apierrors.IsForbidden(err) || failing > maxFailing
}

// finishConversions stops the operator of a deleted extension and resets its conversions, as its identity. It does nothing if
// the operator is to be kept as well.
func (s *run) finishConversions(ctx context.Context) (outcome, error) {
	s.owner = assess.Owner(s.ext, "")
	if is := s.ext.Status.Install; is != nil {
		s.owner.CSV = is.Bundle.Name
	}
	s.owner.Proofs = s.Proofs
	converted, err := s.keptConversions(ctx)
	if err != nil || len(converted) == 0 || s.orphaning.Includes(s.ext) {
		return outcome{}, err
	}
	out, err := s.runPhases(ctx, findIdentity, stopRecreated, stopUnusable, openClients)
	if err != nil || out.stopped {
		return out, err
	}
	objs, err := s.recorded(ctx)
	if err != nil {
		return outcome{}, err
	}
	if orphaned, err := s.isOrphaned(ctx, objs); err != nil || orphaned {
		return outcome{}, err
	}
	if err := s.removeHooks(ctx, objs); err != nil {
		return outcome{}, err
	}
	why, err := s.resetAll(ctx, converted, objs)
	if err != nil || why == "" {
		return outcome{}, err
	}
	return rolling(why), nil
}

// isOrphaned reports whether a Deployment of the lineage has no owner reference to the extension. This shows that the extension
// is deleted with --cascade=orphan, and the operator is to be kept, even if the garbage collector removed the finalizer "orphan"
// while the program was not running or its watch was interrupted.
func (s *run) isOrphaned(ctx context.Context, objs []*unstructured.Unstructured) (bool, error) {
	for _, obj := range objs {
		if !isDeployment(obj) {
			continue
		}
		live, err := apply.Live(ctx, s.executor.Account, obj)
		if err != nil {
			return false, err
		}
		if live != nil && s.owner.Owns(live) && !deployment.OwnedBy(live, s.ext.UID) {
			return true, nil
		}
	}
	return false, nil
}

// stopUnusable stops a run whose identity cannot be used.
func stopUnusable(_ context.Context, s *run) (outcome, error) {
	if s.unusable != nil {
		return waiting(s.unusable.Text()), nil
	}
	return proceed(), nil
}

// removeHooks removes webhooks and APIServices, because the API server must not call a stopped operator.
func (s *run) removeHooks(ctx context.Context, objs []*unstructured.Unstructured) error {
	for _, obj := range objs {
		if !isHook(obj) && obj.GetKind() != "APIService" {
			continue
		}
		if err := s.remove(ctx, obj, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return nil
}

// keptConversions returns the CustomResourceDefinitions of a deleted extension that have a conversion webhook and that the
// garbage collector will not delete.
func (s *run) keptConversions(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	converted, err := s.conversions(ctx)
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range converted {
		if !deployment.OwnedBy(crd, s.ext.UID) {
			out = append(out, crd)
		}
	}
	return out, err
}

func (s *run) warnAboutConversions(err error) {
	why := ""
	if s.unusable != nil {
		why = s.unusable.Message
	} else if err != nil {
		why = err.Error()
	}
	s.Recorder.Eventf(s.ext, nil, corev1.EventTypeWarning, "ConversionsNotReset", "Finalize", "%s", status.Note(
		"CustomResourceDefinitions that are kept still have a conversion webhook, although the operator is being removed: remove spec.conversion from those with the label "+
			names.LabelExtensionName+"="+ownerutil.LabelValue(s.ext.Name)+": "+why))
}
