package bundleimage

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
)

// unpacks takes slots for images, each of which is unpacked for a certain time.
type unpacks struct {
	*slots
	group sync.WaitGroup
	mu    sync.Mutex
	// running counts the unpacks for each requester, and most is its maximum.
	running, most map[string]int
	all, mostAll  int
}

func newUnpacks() *unpacks {
	return &unpacks{slots: newSlots(), running: map[string]int{}, most: map[string]int{}}
}

// start unpacks an image for the first requester.
func (u *unpacks) start(t *testing.T, line, requester string, took time.Duration) *place {
	t.Helper()
	p := &place{line: line}
	u.request(p, requester)
	u.group.Go(func() {
		free, err := u.take(t.Context(), p)
		if err != nil {
			return // the test has failed and ended
		}
		u.count(p.by, 1)
		time.Sleep(took)
		u.count(p.by, -1)
		free()
	})
	synctest.Wait()
	return p
}

func (u *unpacks) isWaiting(p *place) bool {
	u.slots.mu.Lock()
	defer u.slots.mu.Unlock()
	return p.by == ""
}

func (u *unpacks) count(by string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all += n
	u.running[by] += n
	u.most[by], u.mostAll = max(u.most[by], u.running[by]), max(u.mostAll, u.all)
}

func TestNamespacesTakeTurnsUnpackingTheBundlesOfGlobalCatalogs(t *testing.T) {
	for name, shared := range map[string]bool{"another image": false, "an image that the first namespace has requested, too": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUnpacks()
				var last *place
				for range 350 {
					last = u.start(t, "global", "many", 5*time.Second)
				}
				began := time.Now()
				if shared {
					u.request(last, "other")
				} else {
					last = u.start(t, "global", "other", 5*time.Second)
				}
				synctest.Wait()
				require.Equal(t, "other", last.by, "a slot is free at once")
				require.Nil(t, last.granted)
				require.Zero(t, time.Since(began))
				u.group.Wait()
				require.Equal(t, maxForOther, u.most["many"])
			})
		})
	}
}

func TestManyNamespacesShareTheSlotsInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnpacks()
		for n := range 10 {
			for range 35 {
				u.start(t, "global", fmt.Sprint("many", n), 5*time.Second)
			}
		}
		began := time.Now()
		other := u.start(t, "global", "other", 5*time.Second)
		for u.isWaiting(other) {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		require.LessOrEqual(t, time.Since(began), 20*time.Second, "one turn of each namespace")
		u.group.Wait()
		require.Equal(t, maxUnpacks, u.mostAll)
		require.Empty(t, u.lines, "nothing is left")
	})
}

// An image that is tried again waits before it is requested again.
func TestAnImageWaitsForItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnpacks()
		late := &place{line: "tenant"}
		u.wait(late)
		u.start(t, "tenant", "tenant", time.Second)
		u.group.Wait()
		require.Empty(t, late.by)
		u.request(late, "other")
		require.Equal(t, "other", late.by)
		u.free(late)
		require.Empty(t, u.lines)
	})
}

func TestANamespaceUsesAllSlotsOfItsOwnCatalogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnpacks()
		for range 10 {
			u.start(t, "tenant", "tenant", time.Second)
			u.start(t, "other", "other", time.Second)
		}
		u.group.Wait()
		require.Equal(t, map[string]int{"tenant": maxUnpacks, "other": maxUnpacks}, u.most)
	})
}

func TestAnImageThatIsForgottenLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnpacks()
		for range maxForOther {
			u.start(t, "global", "a", time.Minute)
		}
		p := &place{line: "global"}
		u.request(p, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := u.take(ctx, p)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, u.lines["global"].order)
		u.forget(p)
		require.Empty(t, p.requesters)

		// An image without requesters waits until it is requested.
		u.group.Go(func() {
			free, err := u.take(t.Context(), p)
			require.NoError(t, err) //nolint:testifylint // fails the test in any case
			free()
		})
		synctest.Wait()
		require.NotNil(t, p.granted)
		u.request(p, "b")
		synctest.Wait()
		require.Nil(t, p.granted)
		require.Equal(t, "b", p.by)
		u.group.Wait()
	})
}

func TestImagesAreRequestedByTheNamespacesThatReadThem(t *testing.T) {
	images := New(Options{})
	reader := images.Reader(&catalog.Snapshot{Key: types.NamespacedName{Namespace: "global", Name: "one"}, Reader: inline{}, Packages: map[string]*catalog.Package{
		"a": {Bundles: map[string]*catalog.Bundle{"a.v1": {Name: "a.v1", Image: "images.test/a:v1"}}},
	}}, nil)
	for _, namespace := range []string{"first", "second", "first", ""} {
		_, err := reader.Content(catalog.RequestedBy(t.Context(), namespace), "a", "stable", "a.v1")
		require.ErrorIs(t, err, catalog.ErrNoContent)
	}
	require.Len(t, images.byImage, 1)
	for _, u := range images.byImage {
		require.Equal(t, "global", u.place.line)
		require.Equal(t, []string{"first", "second", "global"}, u.place.requesters)
	}
}
