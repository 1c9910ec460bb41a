package copiedcsv

import (
	"context"
	"errors"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
)

// Regression test: the program waited at each start until the handlers had listed a namespace's objects for each of its other objects, which
// took longer than the time after which it ends.
func TestExistingObjectsAreNotCompared(t *testing.T) {
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	at := metav1.ObjectMeta{Namespace: "ns", Name: "cluster"}
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: at}
	plan.Spec.ClusterServiceVersionNames = []string{"op.v1"}
	lists := handlers.CountLists(t, proofs.Scheme(), func(mgr ctrl.Manager, c client.Client) error {
		r, err := New(Options{Client: c, Copies: c, Live: c, RBAC: rbac.Unreadable(errors.New("not in this test")), Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys()})
		require.NoError(t, err)
		return r.SetupWithManager(mgr, &informertest.FakeInformers{}, none)
	}, &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: at}, plan, &operatorsv1.OperatorGroup{ObjectMeta: at}, &corev1.Namespace{ObjectMeta: at}, &operatorsv1.OLMConfig{ObjectMeta: at})
	require.Zero(t, lists)
}

// Regression test: each Namespace took time and memory for each OperatorGroup multiplied by each ClusterServiceVersion of a namespace.
func TestSeveralGroupsOfANamespaceWakeItsSourcesOnce(t *testing.T) {
	var objects []client.Object
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}},
			&operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	}
	objects = append(objects, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "a"}},
		&operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "a"}})
	r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(objects...).Build()}}
	require.Equal(t, []reconcile.Request{kit.Request("ns", "a"), kit.Request("ns", "b"), kit.Request("ns", "c"), kit.Request("other", "a")},
		r.global(t.Context(), &corev1.Namespace{}))
}
