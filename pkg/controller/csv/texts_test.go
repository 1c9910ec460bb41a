package csv

import (
	"context"
	"fmt"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
)

// counted makes a webhook refuse the Deployment with a number in its message.
func counted(n int) change {
	return limited(&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400,
		Message: fmt.Sprintf(`admission webhook "w.example.com" denied the request: refused for the %dth time`, n)}})
}

// watch returns a function that delivers an update to all watches of one kind.
func (w *world) watch(kind client.Object, watches int) (update func(before, after client.Object)) {
	w.t.Helper()
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	added := handlers.Of(w.t, kind, proofs.Scheme(), func(mgr ctrl.Manager) error { return w.r.SetupWithManager(w.t.Context(), mgr, none) })
	var all []cache.ResourceEventHandler
	for len(all) < watches {
		select {
		case handler := <-added:
			all = append(all, handler)
		case <-time.After(10 * time.Second):
			require.Fail(w.t, "a watch is missing")
		}
	}
	return func(before, after client.Object) {
		for _, handler := range all {
			handler.OnUpdate(before, after)
		}
	}
}

// shows reports whether the status contains a number of a webhook.
func (w *world) shows(n int) bool {
	csv := w.csv.DeepCopy()
	w.Get(csv)
	return csv.Status.Message == fmt.Sprintf(`install strategy failed: apply Deployment t1/demo: admission webhook "w.example.com" denied the request: refused for the %dth time`, n)
}

const (
	wokenAfter = 10 * time.Second
	quietFor   = 500 * time.Millisecond
	polled     = 10 * time.Millisecond
)

// Regression test: each status with another text of a webhook started the reconcile that got the next text, without end.
func TestATextThatAlwaysDiffersWakesNothing(t *testing.T) {
	w := newWorld(t)
	counted(1)(w)
	settled(w)
	require.True(t, w.shows(1))
	update := w.watch(w.csv, 3)
	before := w.csv.DeepCopy()

	counted(2)(w)
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
	require.NoError(t, err)
	require.True(t, w.shows(2), "a text that has changed appears at once")
	w.Get(w.csv)
	after := w.csv.DeepCopy()
	counted(3)(w)
	update(before, after)
	require.Never(t, func() bool { return w.shows(3) }, quietFor, polled, "its own text wakes it")

	editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Status.Message = "all is well" })(w)
	w.Get(w.csv)
	update(after, w.csv.DeepCopy())
	require.Eventually(t, func() bool { return w.shows(3) }, wokenAfter, polled, "a text of others wakes it")
}

// Two objects would otherwise wake each other without end: a Subscription and its version, or a version and the one that it replaces.
func TestTextsOfOthersWakeNothing(t *testing.T) {
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "sub", ResourceVersion: "1"}}
	sub.Status.InstalledCSV = "demo.v1.0.0"
	sub.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: operatorsv1alpha1.SubscriptionBundleUnpackFailed, Status: "True", Message: "refused: 1"})
	older := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v0.1.0", ResourceVersion: "1"}}
	for name, row := range map[string]struct {
		before, after, later client.Object
		watches              int
	}{
		"a Subscription": {sub, updated(sub, func(s *operatorsv1alpha1.Subscription) { s.Status.Conditions[0].Message = "refused: 2" }),
			updated(sub, func(s *operatorsv1alpha1.Subscription) {
				s.Status.State = operatorsv1alpha1.SubscriptionStateUpgradePending
			}), 1},
		"an older version": {older, updated(older, func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Status.Message = "refused: 2" }),
			updated(older, func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Status.Phase = phaseFailed }), 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Spec.Replaces = older.Name })(w)
			counted(1)(w)
			settled(w)
			update := w.watch(row.before, row.watches)
			counted(2)(w)
			update(row.before, row.after)
			require.Never(t, func() bool { return w.shows(2) }, quietFor, polled)
			row.later.SetResourceVersion("3")
			update(row.after, row.later)
			require.Eventually(t, func() bool { return w.shows(2) }, wokenAfter, polled)
		})
	}
}

// updated returns a later version of an object.
func updated[T client.Object](obj T, edit func(T)) client.Object {
	after := obj.DeepCopyObject().(T) //nolint:forcetypeassert // a copy has the type of the original
	edit(after)
	after.SetResourceVersion(after.GetResourceVersion() + "0")
	return after
}

// A reconcile with an outdated object leaves the rest to the event for the newer version, which is dropped if only texts have changed.
func TestAnOutdatedVersionWithAnotherTextIsReadAgain(t *testing.T) {
	w := newWorld(t)
	counted(1)(w)
	settled(w)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)}
	w.Lag(w.csv.DeepCopy())
	counted(2)(w)
	_, err := w.r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	require.True(t, w.shows(2))
	result, err := w.r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, reconcile.Result{RequeueAfter: status.CacheLag}, result)
}
