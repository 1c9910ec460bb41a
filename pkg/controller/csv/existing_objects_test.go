package csv

import (
	"context"
	"errors"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
)

// Regression test: the program waited at each start until the handlers had listed a namespace's objects for each of its other objects, which
// took longer than the time after which it ends.
func TestExistingObjectsAreNotCompared(t *testing.T) {
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	at := metav1.ObjectMeta{Namespace: "ns", Name: "a"}
	scheme := proofs.Scheme()
	require.NoError(t, operatorsv2.AddToScheme(scheme))
	refused := &operatorsv2.OperatorCondition{ObjectMeta: at}
	refused.Spec.Overrides = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse}}
	lists := handlers.CountLists(t, scheme, func(mgr ctrl.Manager, c client.Client) error {
		r := &Reconciler{Options: Options{Client: c, Live: c, Proofs: proofs.Keys(), RBAC: rbac.Unreadable(errors.New("not in this test"))}, interests: &kit.Interests{},
			orphaning: &kit.Orphaning{}, rivals: &rivals{}, replaced: &status.Replaced{}, secrets: &secretWatches{}}
		return r.SetupWithManager(t.Context(), mgr, none)
	}, &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: at}, &operatorsv1alpha1.Subscription{ObjectMeta: at}, &operatorsv1.OperatorGroup{ObjectMeta: at}, refused,
		&appsv1.Deployment{ObjectMeta: at}, &corev1.Service{ObjectMeta: at}, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: at},
		&apiregistrationv1.APIService{ObjectMeta: at}, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: at},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: at})
	require.Zero(t, lists)
}
