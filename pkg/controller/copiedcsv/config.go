package copiedcsv

import (
	"context"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// configName is the name of the only OLMConfig that has an effect.
const configName = "cluster"

// Reasons of the condition DisabledCopiedCSVs.
const (
	reasonEnabled  = "CopiedCSVsEnabled"
	reasonDisabled = "CopiedCSVsDisabled"
)

// setupConfig registers the controller that maintains the status of OLMConfig.
func (r *Reconciler) setupConfig(mgr ctrl.Manager, only predicate.Predicate) error {
	return ctrl.NewControllerManagedBy(mgr).Named("olmconfig").
		WithOptions(fairqueue.Options(mgr, 1, nil)).
		For(&operatorsv1.OLMConfig{}, builder.WithPredicates(only)).
		WatchesRawSource(source.Func(r.reporter.Start)).
		Complete(reconcile.Func(r.reconcileConfig))
}

// reconcileConfig writes the condition of OLMConfig.
func (r *Reconciler) reconcileConfig(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	config, err := r.config(ctx)
	if err != nil || config == nil || config.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	var all progress
	r.progress.Each(func(_ types.NamespacedName, p progress) {
		all.missing += p.missing
		all.surplus += p.surplus
	})
	after := config.DeepCopy()
	meta.SetStatusCondition(&after.Status.Conditions, condition(config, all))
	err = status.Patch[client.Object](ctx, r.Client, config, after)
	if apierrors.IsConflict(err) { // the pending watch event triggers another reconcile
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// Messages of the condition DisabledCopiedCSVs, which tools compare with those of OLM.
const (
	messageCopied    = "Copied CSVs are enabled and present across the cluster"
	messageMissing   = "Copied CSVs are enabled and at least one copied CSVs is missing"
	messageNotCopied = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode"
	messageSurplus   = "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode"
)

// condition describes the copies of all operators whose OperatorGroup targets all namespaces. As in OLM, it is True when
// all copies that OLMConfig disables have been deleted.
func condition(config *operatorsv1.OLMConfig, all progress) metav1.Condition {
	c := metav1.Condition{
		Type: operatorsv1.DisabledCopiedCSVsConditionType, Status: metav1.ConditionFalse, Reason: reasonEnabled, ObservedGeneration: config.Generation,
		Message: messageCopied,
	}
	switch {
	case config.CopiedCSVsAreEnabled() && all.missing > 0:
		c.Message = messageMissing
	case config.CopiedCSVsAreEnabled():
	case all.surplus > 0:
		c.Reason, c.Message = reasonDisabled, messageSurplus
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonDisabled, messageNotCopied
	}
	return c
}
