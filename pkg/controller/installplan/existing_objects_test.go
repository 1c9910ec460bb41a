package installplan

import (
	"context"
	"errors"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
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
	api := &apiregistrationv1.APIService{ObjectMeta: at}
	api.Spec.Group, api.Spec.Service = "things.example.com", &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "s"}
	lists := handlers.CountLists(t, proofs.Scheme(), func(mgr ctrl.Manager, c client.Client) error {
		r := &Reconciler{Options: Options{Client: c, Live: c, Clock: clock.RealClock{}, RBAC: rbac.Unreadable(errors.New("not in this test"))}, interests: &kit.Interests{},
			large: &largeQueue{clock: clock.RealClock{}}, memory: &memory{}, own: &status.Own{}, owners: &owners{}, warnings: newWarnings()}
		return r.SetupWithManager(t.Context(), mgr, none, none)
	}, &operatorsv1alpha1.InstallPlan{ObjectMeta: at}, &operatorsv1.OperatorGroup{ObjectMeta: at}, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: at}, api)
	require.Zero(t, lists)
}
