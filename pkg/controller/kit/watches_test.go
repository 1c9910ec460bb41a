package kit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

type key = types.NamespacedName

func newWatches() *Watches[key] {
	return &Watches[key]{Wake: func(key) {}, Namespace: func(k key) string { return k.Namespace }}
}

// open opens a watch of a key, and returns it, or nil if none was opened.
func open(t *testing.T, w *Watches[key], k key, is string) (events *watch.FakeWatcher, isOpen bool) {
	t.Helper()
	isOpen, err := w.Open(t.Context(), k, is, func(context.Context) (watch.Interface, error) {
		events = watch.NewFake()
		return events, nil
	})
	require.NoError(t, err)
	return events, isOpen
}

func TestWatchesAreLimitedInANamespaceAndOverall(t *testing.T) {
	w := newWatches()
	opened := 0
	for n := range MaxAllWatches/MaxWatches + 1 {
		for i := range MaxWatches + 1 {
			k := key{Namespace: fmt.Sprint("ns", n), Name: fmt.Sprint(i)}
			events, isOpen := open(t, w, k, "a")
			require.Equal(t, isOpen, events != nil)
			require.Equal(t, i < MaxWatches && opened < MaxAllWatches, isOpen, "%s", k)
			if isOpen {
				opened++
			}
		}
	}
	require.Equal(t, MaxAllWatches, opened)

	t.Log("a closed watch makes room for one of its namespace, and a failed one does not count")
	require.Len(t, w.Close(func(k key, _ string) bool { return k == key{Namespace: "ns0", Name: "0"} }), 1)
	_, err := w.Open(t.Context(), key{Namespace: "ns0", Name: "x"}, "a", func(context.Context) (watch.Interface, error) { return nil, errors.New("forbidden") })
	require.Error(t, err)
	_, isOpen := open(t, w, key{Namespace: "ns1", Name: "x"}, "a")
	require.False(t, isOpen)
	_, isOpen = open(t, w, key{Namespace: "ns0", Name: "x"}, "a")
	require.True(t, isOpen)
}

func TestAWatchIsReplacedIfItsIdentityChanges(t *testing.T) {
	w := newWatches()
	first, _ := open(t, w, key{Name: "x"}, "a")
	again, isOpen := open(t, w, key{Name: "x"}, "a")
	require.True(t, isOpen)
	require.Nil(t, again, "the watch is kept")
	_, isOpen = open(t, w, key{Name: "x"}, "b")
	require.True(t, isOpen)
	require.True(t, first.IsStopped())
}

// The account of a namespace can change while a watch is being opened as the old one.
func TestAWatchThatIsClosedWhileItIsOpenedIsStopped(t *testing.T) {
	w := newWatches()
	events := watch.NewFake()
	isOpen, err := w.Open(t.Context(), key{Name: "x"}, "a", func(context.Context) (watch.Interface, error) {
		require.Equal(t, []key{{Name: "x"}}, w.Close(func(key, string) bool { return true }))
		return events, nil
	})
	require.NoError(t, err)
	require.False(t, isOpen)
	require.True(t, events.IsStopped())
}

func TestAllWatchesAreClosedWhenTheProgramEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatches()
		events, _ := open(t, w, key{Name: "x"}, "a")
		w.Begin(key{Name: "x"}, "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, w.Start(ctx))
		require.True(t, events.IsStopped())
	})
}
