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
	"github.com/remit-olm/remit/pkg/install"
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

// The csv controller waits for a plan as long as the status of the Subscription says that the plan is pending.
func TestNewsThatDoNotDependOnCatalogsAreNotKeptBack(t *testing.T) {
	exists := func(v *view) {
		v.installed = &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "a.v1"}}
	}
	unloaded := func(v *view) { v.catalog.healthy = false }
	exceeding := func(v *view) {
		v.installed.Status.RequirementStatus = []operatorsv1alpha1.RequirementStatus{{Kind: "ServiceAccount", Message: install.AccountNotCovering + "get pods"}}
	}
	missing := permissionsMissing(corev1.ConditionTrue, "get pods")
	type views = []func(*view)
	for _, row := range []struct {
		name        string
		before, now views
		want        bool
	}{
		{"the catalog is not loaded", views{installed("a.v1", "Succeeded"), head("a.v2")}, views{installed("a.v1", "Succeeded"), unloaded}, false},
		{"the resolution fails", views{plan("a.v1", "Complete"), exists}, views{plan("a.v1", "Complete"), exists, problem, unloaded}, false},
		{"a plan that waits for approval is not found yet", views{plan("a.v1", "RequiresApproval")}, views{problem, unloaded}, false},
		{"a plan that is being executed", views{plan("a.v1", "Installing"), exists}, views{plan("a.v1", "Installing"), exists, unloaded}, false},
		{"the plan is complete", views{plan("a.v1", "Installing"), exists}, views{plan("a.v1", "Complete"), exists}, true},
		{"the plan has been approved", views{plan("a.v1", "RequiresApproval")}, views{plan("a.v1", "Installing")}, true},
		{"the plan has failed", views{plan("a.v1", "Installing")}, views{plan("a.v1", "Failed", because("InstallComponentFailed", "x"))}, true},
		{"the plan cannot be created", nil, views{func(v *view) { v.unpackFailed = &reasoned{reasonEnsureFailed, "quota"} }}, true},
		{"the plan is missing permissions", views{plan("a.v1", "Installing")}, views{plan("a.v1", "Installing", missing)}, true},
		{"the first plan", nil, views{plan("a.v1", "Complete")}, true},
		{"another plan", views{plan("a.v1", "Complete")}, views{plan("a.v1", "Complete"), func(v *view) { v.plan.UID = "other" }}, true},
		{"the version is installed", nil, views{installed("a.v1", "Succeeded")}, true},
		{"the catalog was deleted", nil, views{func(v *view) { v.catalog.source = nil }}, true},
		{"the version was deleted", views{installed("a.v1", "Succeeded")}, nil, true},
		{"another account", views{plan("a.v1", "Complete")}, views{plan("a.v1", "Complete"), func(v *view) { v.named = "ns/acct" }}, true},
		{"the account no longer has the permissions", views{installed("a.v1", "Succeeded")}, views{installed("a.v1", "Succeeded"), exceeding}, true},
	} {
		r := restart(t)
		sub := &operatorsv1alpha1.Subscription{}
		require.NoError(t, r.cached.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "sub"}, sub))
		r.write(sub, given(row.before...))
		require.NoError(t, r.cached.Status().Update(t.Context(), sub))
		stored := sub.ResourceVersion
		require.NoError(t, r.save(t.Context(), &world{namespace: "ns", isLoading: true}, sub, given(row.now...)))
		require.NoError(t, r.cached.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
		require.Equal(t, row.want, sub.ResourceVersion != stored, row.name)
	}
}

// arriving is a catalog that is loaded right after it was first read.
type arriving struct{ *catalog.Store }

func (a arriving) Get(key types.NamespacedName) (*catalog.Snapshot, bool) {
	snap, ok := a.Store.Get(key)
	a.Put(&catalog.Snapshot{Key: key})
	return snap, ok
}

func TestACatalogThatIsLoadedDuringAReconcileIsNotReportedAsUnhealthy(t *testing.T) {
	r := restart(t, health(true, "source"))
	r.Catalogs = arriving{r.store}
	require.False(t, r.writes(t), "the catalog wakes the namespace again")
	require.False(t, r.store.IsLoading(types.NamespacedName{Namespace: "ns", Name: "cat"}))
}
