package subscription

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
)

// restarted is a Reconciler that has just started, and a Subscription whose status is of an earlier process.
type restarted struct {
	*Reconciler
	cached client.Client
	store  *catalog.Store
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func restart(t *testing.T, health ...operatorsv1alpha1.SubscriptionCatalogHealth) *restarted {
	t.Helper()
	sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
	sub.Status.CatalogHealth = health
	source := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cat", UID: "source"}}
	r := &restarted{store: &catalog.Store{}, queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
	t.Cleanup(r.queue.ShutDown)
	r.cached = fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(sub, source).WithStatusSubresource(sub).Build()
	var err error
	r.Reconciler, err = New(Options{Client: r.cached, Live: r.cached, Catalogs: r.store, RBAC: rbac.Unreadable(errors.New("not in this test")),
		Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
	require.NoError(t, err)
	require.NoError(t, r.reloading.start(t.Context(), r.queue))
	return r
}

// writes reconciles the namespace and reports whether the status has changed.
func (r *restarted) writes(t *testing.T) bool {
	t.Helper()
	sub := &operatorsv1alpha1.Subscription{}
	key := client.ObjectKey{Namespace: "ns", Name: "sub"}
	require.NoError(t, r.cached.Get(t.Context(), key, sub))
	before := sub.ResourceVersion
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "ns"}})
	require.NoError(t, err)
	require.NoError(t, r.cached.Get(t.Context(), key, sub))
	return sub.ResourceVersion != before
}

func health(isHealthy bool, uid types.UID) operatorsv1alpha1.SubscriptionCatalogHealth {
	return operatorsv1alpha1.SubscriptionCatalogHealth{CatalogSourceRef: &corev1.ObjectReference{UID: uid}, Healthy: isHealthy, LastUpdated: &metav1.Time{}}
}

func TestKeepsStatusesWhileCatalogsAreLoadedAgain(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "cat"}
	synctest.Test(t, func(t *testing.T) {
		r := restart(t, health(true, "source"))
		require.False(t, r.writes(t), "the catalog is loading")
		r.store.SetUnavailable(key)
		require.True(t, r.writes(t), "the catalog is unhealthy")
	})
	synctest.Test(t, func(t *testing.T) {
		r := restart(t, health(true, "source"))
		require.False(t, r.writes(t))
		time.Sleep(reloadTime)
		synctest.Wait()
		require.Equal(t, 1, r.queue.Len())
		got, _ := r.queue.Get()
		require.Equal(t, request("ns"), got)
		require.True(t, r.writes(t), "a catalog that is loading for long is reported")
	})
	for name, before := range map[string][]operatorsv1alpha1.SubscriptionCatalogHealth{
		"a new Subscription":      nil,
		"an unhealthy catalog":    {health(false, "source")},
		"another CatalogSource":   {health(true, "another")},
		"an incomplete reference": {{Healthy: true, LastUpdated: &metav1.Time{}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			require.True(t, restart(t, before...).writes(t), name)
		})
	}
}
