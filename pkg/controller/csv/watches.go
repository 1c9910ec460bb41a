package csv

import (
	"context"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/lib/fairqueue"
)

// workers is how many ClusterServiceVersions are reconciled concurrently; workers mostly wait for responses.
const workers = 16

// SetupWithManager registers watches of everything that a ClusterServiceVersion can wait for. changes wakes those
// that Concerned returns.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changes source.Source) error {
	if err := indexLineage(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("csv").
		WithOptions(fairqueue.Options(workers, nil)).
		For(&operatorsv1alpha1.ClusterServiceVersion{}).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, handler.EnqueueRequestsFromMapFunc(r.neighbors)).
		Watches(&operatorsv1alpha1.Subscription{}, handler.EnqueueRequestsFromMapFunc(r.subscribed)).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.deployed)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.naming)).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.serving)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.calledThrough)).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling)).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling)).
		WatchesRawSource(changes).
		Complete(r)
}
