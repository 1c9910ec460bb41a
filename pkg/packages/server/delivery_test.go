package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/packages"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// Each of these packages takes a fifth of the room for the events of one user.
func largePackages(n int) []packages.Record {
	var out []packages.Record
	for i := range n {
		r := record("c", fmt.Sprintf("p%03d", i), "x")
		r.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription = strings.Repeat("x", maxWatchBytesUser/5-4096)
		out = append(out, r)
	}
	return out
}

// unread is a watch that is served to a client that does not read.
type unread struct {
	watch.Interface
	*delivery
}

func (m *manifests) unread(t *testing.T, user context.Context) unread {
	t.Helper()
	return m.unreadSince(t, user, 0)
}

// unreadSince returns a watch of the changes after a version, or of all packages if the version is 0.
func (m *manifests) unreadSince(t *testing.T, user context.Context, after uint64) unread {
	t.Helper()
	d := &delivery{}
	w, err := m.Watch(context.WithValue(genericrequest.WithNamespace(user, "n"), deliveryKey{}, d), &metainternalversion.ListOptions{ResourceVersion: version(after)})
	require.NoError(t, err)
	return unread{w, d}
}

// holders returns the watches that hold memory for an event.
func holders(all []unread) map[int]bool {
	out := map[int]bool{}
	for i, w := range all {
		w.mu.Lock()
		if len(w.releases) > 0 {
			out[i] = true
		}
		w.mu.Unlock()
	}
	return out
}

func TestLimitsTheEventsThatAUserDoesNotRead(t *testing.T) {
	s := serving(t)
	s.put(global, "c", largePackages(2)...)
	s.complete()
	m := &manifests{store: s.store, room: newRoom()}
	user, end := request(t, "slow")
	var all []unread
	for range maxWatchesUser {
		all = append(all, m.unread(t, user))
	}
	var first map[int]bool
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		first = holders(all)
		assert.Len(c, first, 5, "the events of all watches of the user have one limit")
	}, time.Minute, time.Millisecond)
	other, done := request(t, "other")
	foreign := m.unread(t, other)
	<-foreign.ResultChan()

	t.Log("an event counts until it was written")
	var one unread
	for i := range first {
		one = all[i]
	}
	<-one.ResultChan()
	require.Equal(t, first, holders(all))
	response := &tracked{httptest.NewRecorder(), one.delivery, maxStall}
	_, err := response.Write([]byte("{}"))
	require.NoError(t, err)
	response.Flush()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		now := holders(all)
		assert.Len(c, now, 5)
		assert.NotEqual(c, first, now)
	}, time.Minute, time.Millisecond)

	t.Log("an event no longer counts when its watch has ended")
	end()
	done()
	for _, w := range append(all, foreign) {
		w.end()
	}
	require.Eventually(t, func() bool {
		m.room.mu.Lock()
		defer m.room.mu.Unlock()
		return len(m.room.users) == 0 && m.room.events.TryAcquire(maxWatchBytes)
	}, time.Minute, time.Millisecond)
}

// A tenant can replace a catalog every ten seconds, while the tenant's watches do not read their first events.
func TestWatchesThatWaitDoNotKeepReplacedCatalogs(t *testing.T) {
	s := serving(t)
	s.put(global, "c", largePackages(3)...)
	s.complete()
	m := &manifests{store: s.store, room: newRoom()}
	user, end := request(t, "slow")
	var all []unread
	var old []weak.Pointer[store.Entry]
	for range 3 {
		for range 4 { // there is room for five events at a time
			all = append(all, m.unread(t, user))
		}
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Len(c, holders(all), min(len(all), 5))
		}, time.Minute, time.Millisecond)
		entries, _ := s.store.List(store.View{})
		for _, e := range entries {
			old = append(old, weak.Make(e))
		}
		s.put(global, "c", largePackages(3)...)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		runtime.GC()
		for _, e := range old {
			assert.Nil(c, e.Value())
		}
	}, 20*time.Second, 50*time.Millisecond)

	t.Log("each watch sends what is current when there is room")
	s.put(global, "c", record("c", "p001", "new"), record("c", "p002", "new"))
	one := all[0]
	for i := range holders(all) {
		one = all[i]
	}
	for _, want := range []string{"p000", "p001"} {
		got, ok := (<-one.ResultChan()).Object.(*packagesv1.PackageManifest)
		require.True(t, ok)
		require.Equal(t, want, got.Name)
		require.Equal(t, want == "p001", got.Labels["team"] == "new")
		one.delivery.release(func(int) int { return 1 })
	}
	end()
	for _, w := range all {
		w.end()
	}
}

// Watches that have sent all events are idle, however many there are, and hold no memory.
func TestEventsThatWereReadLeaveRoom(t *testing.T) {
	s := serving(t)
	s.put(global, "c", largePackages(1)...)
	s.complete()
	var all []watch.Interface
	for range 20 {
		w, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED p000@c"}, seen(t, w, 1))
		all = append(all, w)
	}
	s.put(global, "c", record("c", "p000", "small"))
	for _, w := range all {
		require.Equal(t, []string{"MODIFIED p000@c"}, seen(t, w, 1))
	}
}

func TestEndsAWatchThatIsNotRead(t *testing.T) {
	const stall = 500 * time.Millisecond
	resume, result := make(chan struct{}), make(chan error, 1)
	handler := withDelivery(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		flusher, _ := w.(http.Flusher)
		write := func(data string) error {
			_, err := w.Write([]byte(data))
			flusher.Flush()
			return err
		}
		if err := write("small"); err != nil {
			result <- err
			return
		}
		<-resume
		for err := error(nil); err == nil; {
			if err = write(strings.Repeat("x", 1<<20)); err != nil {
				result <- err
			}
		}
	}), stall)
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				watching := r.WithContext(genericrequest.WithRequestInfo(r.Context(), &genericrequest.RequestInfo{Verb: "watch"}))
				withAnswer(handler, stall).ServeHTTP(w, watching)
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			got, err := server.Client().Get(server.URL)
			require.NoError(t, err)
			defer got.Body.Close()
			small := make([]byte, 5)
			_, err = io.ReadFull(got.Body, small)
			require.NoError(t, err)
			select {
			case err := <-result:
				require.Fail(t, "an idle watch has ended", "%v", err)
			case <-time.After(3 * stall):
			}
			resume <- struct{}{}
			require.Error(t, <-result, "the client does not read")
		})
	}
}
