package scopedcache

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A resync must not send its update after the deletion of the object.
func TestAResyncWaitsForChanges(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.claim("o", Namespace("x")).lists(t, "10", secretAt("a", "10"))
	updates := make(chan string, 1000)
	_, err := (&informer{kind: f.secrets}).AddEventHandlerWithResyncPeriod(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) {
			select {
			case updates <- "update":
			default:
			}
		},
	}, time.Millisecond)
	require.NoError(t, err)
	<-updates
	f.secrets.mu.Lock() // the mutex is held while an object changes
	defer f.secrets.mu.Unlock()
	require.Eventually(t, func() bool { return f.secrets.objects.handlers.pending() == 0 }, time.Minute, time.Millisecond)
	<-time.After(50 * time.Millisecond)
	for range len(updates) { // these updates were already being delivered
		<-updates
	}
	<-time.After(50 * time.Millisecond)
	require.Empty(t, updates, "a resync while an object changes")
}

func TestPendingEventsIncludeThoseOfABatch(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	begun, held := make(chan struct{}, 3), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	f.claim("o", Namespace("x")).lists(t, "10", secretAt("a", "10"), secretAt("b", "10"), secretAt("c", "10"))
	require.Len(t, f.received(), 3)
	_, err := (&informer{kind: f.secrets}).AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		begun <- struct{}{}
		<-held
	}})
	require.NoError(t, err)
	<-begun
	require.Equal(t, 2, f.secrets.objects.handlers.pending(), "the first event is being handled")
	release()
	require.Eventually(t, func() bool { return f.secrets.objects.handlers.pending() == 0 }, time.Minute, time.Millisecond)
}

// A claim is late if, for example, IndexField uses a primary kind before its controller claims the kind.
func TestHasSyncedWaitsForALateClaim(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	require.NoError(t, f.IndexField(t.Context(), &corev1.ConfigMap{}, "x", func(client.Object) []string { return nil }))
	require.True(t, f.WaitForCacheSync(t.Context()))
	informer, err := f.GetInformer(t.Context(), &corev1.ConfigMap{})
	require.NoError(t, err)
	handle, err := informer.AddEventHandler(f)
	require.NoError(t, err)
	require.False(t, informer.HasSynced())
	require.False(t, handle.HasSynced())
	f.configMaps.cluster.feed.lists(t, "10")
	require.True(t, informer.HasSynced())
	require.True(t, handle.HasSynced())
}

func TestAnInformerRemovesOnlyItsOwnHandlers(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	require.Error(t, (&informer{kind: f.configMaps}).RemoveEventHandler(f.handler))
	f.claim("o", Object("x", "a")).lists(t, "10", secretAt("a", "10"))
	require.Equal(t, []string{"add a 10"}, f.received())
}

func TestOnlyFirstListsAreInitial(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	initial := make(chan string, 10)
	_, err := (&informer{kind: f.secrets}).AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{AddFunc: func(obj any, isInitial bool) {
		initial <- fmt.Sprint(obj.(client.Object).GetName(), " ", isInitial)
	}})
	require.NoError(t, err)
	namespace := f.claim("n", Namespace("x"))
	namespace.lists(t, "10", secretAt("a", "10"))
	require.Equal(t, "a true", <-initial)
	namespace.lists(t, "20", secretAt("a", "10"), secretAt("b", "20"))
	require.Equal(t, "b false", <-initial)
}
