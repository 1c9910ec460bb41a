package catalogsource

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/test/env/registry"
)

// begin starts the Reconciler as its controller does, and applies the limits of tenants to all CatalogSources.
func (w *world) begin(t *testing.T) {
	t.Helper()
	for _, b := range w.images.contents() {
		b.exempt = ""
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(queue.ShutDown)
	require.NoError(t, w.start(t.Context(), queue))
}

// isExpected reports whether room is left for a CatalogSource in both budgets.
func (w *world) isExpected(t *testing.T, name string) bool {
	t.Helper()
	_, memory := w.images.budget.waiting(key(name))
	_, space := w.images.space.waiting(key(name))
	require.Equal(t, memory, space)
	return memory
}

// The room for a catalog must not depend on how soon it is reconciled: what ends the program delays the namespaces whose work it ended.
func TestWhatExistsAtTheStartIsExpectedOnce(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	pull := make(chan struct{})
	answer := sync.OnceFunc(func() { close(pull) })
	defer answer() // the registry waits for its requests
	s.Answer(func(http.ResponseWriter, *http.Request) bool {
		<-pull
		return false
	})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "c", UID: "u"}, Data: map[string]string{"catalog.yaml": goodCatalog}}
	text := operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}
	image := operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}
	w := running(t, cm, catalogSource("image", image), catalogSource("text", text), catalogSource("invalid", operatorsv1alpha1.CatalogSourceSpec{}),
		catalogSource("deleted", text), catalogSource("suspended", text))
	w.begin(t)
	for _, name := range []string{"image", "text", "invalid", "deleted", "suspended"} {
		require.True(t, w.isExpected(t, name), name)
	}

	requireReady(t, w.reconcile(t, "text"))
	w.reconcile(t, "invalid")
	require.NoError(t, w.Delete(t.Context(), catalogSource("deleted", text)))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("deleted")})
	require.NoError(t, err)
	for _, name := range []string{"text", "invalid", "deleted"} {
		require.False(t, w.isExpected(t, name), name)
	}

	w.reconcile(t, "image")
	require.True(t, w.isExpected(t, "image"), "it is being read")
	require.NoError(t, w.Create(t.Context(), catalogSource("new", image)))
	w.reconcile(t, "new")
	require.False(t, w.isExpected(t, "new"), "it was created after the start")
	answer()
	<-w.woken
	<-w.woken
	requireReady(t, w.reconcile(t, "image"))
	require.False(t, w.isExpected(t, "image"))
	cs := &operatorsv1alpha1.CatalogSource{}
	require.NoError(t, w.Get(t.Context(), key("image"), cs))
	cs.Spec.Image, _ = push(t, s, "catalog:v2", otherCatalog)
	require.NoError(t, w.Update(t.Context(), cs))
	w.reconcile(t, "image")
	require.False(t, w.isExpected(t, "image"), "it has another image")
	require.True(t, w.isExpected(t, "suspended"))
}

// Registries that send slowly, and namespaces that are suspended, do not keep room from others forever.
func TestWhatIsExpectedIsNotAwaitedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &images{budget: newBudget("global"), space: newDiskBudget("global"), clock: clock.RealClock{}}
		late, refused := imageOf("late"), imageOf("refused")
		woken := make(chan types.NamespacedName, 10)
		i.budget.wake = func(key types.NamespacedName) { woken <- key }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = i.Start(ctx) }()
		i.expect([]types.NamespacedName{late.key, imageOf("tried").key})
		i.settle(imageOf("tried").key)
		for n := range 5 {
			require.NoError(t, i.budget.take(imageOf("%d", n), 60<<20))
		}
		require.Error(t, i.budget.take(refused, 40<<20))
		time.Sleep(maxExpected - time.Second)
		synctest.Wait()
		_, expected := i.budget.waiting(late.key)
		require.True(t, expected)
		require.Empty(t, woken)
		time.Sleep(time.Second)
		synctest.Wait()
		_, expected = i.budget.waiting(late.key)
		require.False(t, expected)
		_, expected = i.space.waiting(late.key)
		require.False(t, expected)
		require.Len(t, woken, 1)
		require.Equal(t, refused.key, <-woken)
		i.settle(late.key)
		time.Sleep(time.Hour)
		require.Empty(t, woken, "it is tried again once")
		require.NoError(t, i.budget.take(refused, 40<<20))
	})
}
