package operatorcondition

import (
	"context"
	"errors"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
)

// Regression test: the program waited at each start until the handlers had listed a namespace's objects for each of its other objects, which
// took longer than the time after which it ends.
func TestExistingObjectsAreNotCompared(t *testing.T) {
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	at := metav1.ObjectMeta{Namespace: "ns", Name: "a"}
	lists := handlers.CountLists(t, proofs.Scheme(), func(mgr ctrl.Manager, c client.Client) error {
		r, err := New(Options{Client: c, RBAC: rbac.Unreadable(errors.New("not in this test"))})
		require.NoError(t, err)
		return r.SetupWithManager(mgr, none)
	}, &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: at}, &operatorsv1.OperatorGroup{ObjectMeta: at})
	require.Zero(t, lists)
}
