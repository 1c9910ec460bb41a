package csv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// watched is an API server that records the watches of Secrets.
type watched struct {
	*secretWatches
	t      *testing.T
	queue  workqueue.TypedRateLimitingInterface[ctrl.Request]
	opened []*watch.FakeWatcher
	refuse error
}

var demoCSV = types.NamespacedName{Namespace: "t1", Name: "demo"}

func givenSecretWatches(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())}
	w.secretWatches = newSecretWatches(func(context.Context, scoped.Account, types.NamespacedName) (watch.Interface, error) {
		if w.refuse != nil {
			return nil, w.refuse
		}
		w.opened = append(w.opened, watch.NewFake())
		return w.opened[len(w.opened)-1], nil
	})
	require.NoError(t, w.Waker.Start(t.Context(), w.queue))
	return w
}

func (w *watched) set(account types.UID, names ...string) {
	w.secretWatches.set(w.t.Context(), demoCSV, scoped.Account{Namespace: "t1", Name: "acct", UID: account}, names)
}

// woken reports whether the CSV was woken since the last call.
func (w *watched) woken() bool {
	synctest.Wait()
	n := w.queue.Len()
	for range n {
		req, _ := w.queue.Get()
		w.queue.Done(req)
	}
	return n > 0
}

func secretVersion(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "s", ResourceVersion: version}}
}

func TestASecretThatChangesWakesItsCSV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := givenSecretWatches(t)
		defer w.queue.ShutDown()
		w.set("a", "s")
		w.begin(demoCSV, "s", "5")
		defer w.drop(demoCSV)
		w.opened[0].Add(secretVersion("5"))
		require.False(t, w.woken(), "the version that was read")
		w.opened[0].Modify(secretVersion("6"))
		require.True(t, w.woken(), "an edit")
		w.opened[0].Action(watch.Bookmark, secretVersion("7"))
		require.False(t, w.woken(), "a bookmark")
		w.opened[0].Delete(secretVersion("6"))
		require.True(t, w.woken(), "a deletion")
		w.set("a", "s")
		require.Len(t, w.opened, 1, "the watch is kept")
	})
}

func TestASecretIsWatchedAgainAfterTheWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := givenSecretWatches(t)
		defer w.queue.ShutDown()
		w.set("a", "s")
		w.begin(demoCSV, "s", "5")
		w.opened[0].Stop()
		require.False(t, w.woken(), "not at once")
		time.Sleep(kit.WatchAgain)
		require.True(t, w.woken())
		w.refuse = errors.New("forbidden")
		w.set("a", "s")
		time.Sleep(time.Hour)
		require.False(t, w.woken(), "a refused watch is not retried")
		w.refuse = nil
		w.set("a", "s")
		require.Len(t, w.opened, 2)
		w.drop(demoCSV)
	})
}

func TestSecretWatchesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := givenSecretWatches(t)
		defer w.queue.ShutDown()
		w.set("a", "s", "other")
		w.begin(demoCSV, "s", "5")
		w.set("a", "s")
		require.True(t, w.opened[1].IsStopped(), "the CSV no longer has this certificate, or the account may not watch it")
		w.set("b", "s")
		require.True(t, w.opened[0].IsStopped(), "another account")
		require.Len(t, w.opened, 3)
		w.begin(demoCSV, "s", "5")
		w.drop(demoCSV)
		require.True(t, w.opened[2].IsStopped(), "the CSV was deleted")
		time.Sleep(time.Hour)
		require.False(t, w.woken(), "a closed watch wakes nothing")
	})
}

func TestANamespaceHasALimitedNumberOfSecretWatches(t *testing.T) {
	w := givenSecretWatches(t)
	defer w.queue.ShutDown()
	var names []string
	for i := range kit.MaxWatches + 1 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	w.set("a", names...)
	require.Len(t, w.opened, kit.MaxWatches)
}
