package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// occupy uses a slot for a time, and then returns it.
func occupy(t *testing.T, all *Turns, namespace string, d time.Duration) {
	t.Helper()
	go func() {
		turn, ctx, err := all.Join(t.Context(), namespace)
		if err != nil {
			return
		}
		defer turn.Leave()
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}()
	synctest.Wait()
}

// pass uses a slot for a moment, and returns how long it waited for it.
func pass(ctx context.Context, t *testing.T, all *Turns, namespace string) time.Duration {
	t.Helper()
	began := time.Now()
	turn, _, err := all.Join(ctx, namespace)
	require.NoError(t, err)
	turn.Leave()
	return time.Since(began)
}

func TestOnlyWaitsForOtherNamespacesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Turns{Slots: 2, Share: 1}
		task, whole := Measure(t.Context())
		part, waits := Measure(task)
		occupy(t, all, "other", 5*time.Second)
		occupy(t, all, "another", 9*time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(time.Second)
			pass(part, t, all, "own")
		}()
		time.Sleep(3 * time.Second)
		require.Equal(t, 2*time.Second, waits.Total(), "a wait that has not ended counts")
		require.Equal(t, 5*time.Second-3*time.Second, pass(part, t, all, "own"))
		<-done
		require.Equal(t, 4*time.Second, waits.Total(), "two calls that wait at the same time count once")
		require.Equal(t, 4*time.Second, whole.Total())
		occupy(t, all, "own", time.Second)
		require.Equal(t, time.Second, pass(part, t, all, "own"))
		require.Equal(t, 4*time.Second, waits.Total(), "a namespace that uses its share waits for itself")
	})
}

func TestATimeoutDoesNotCountWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := errors.New("over")
		for _, row := range []struct{ wait, took time.Duration }{{0, 10 * time.Second}, {5 * time.Second, 15 * time.Second}, {time.Minute, 30 * time.Second}} {
			all := &Turns{Slots: 1, Share: 1}
			occupy(t, all, "other", row.wait)
			began := time.Now()
			ctx, _, cancel := WithTimeout(t.Context(), 10*time.Second, 20*time.Second, over)
			if turn, _, err := all.Join(ctx, "own"); err == nil {
				turn.Leave()
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), over)
			require.InDelta(t, row.took, time.Since(began), float64(recheck), "after waiting for %s", row.wait)
			cancel()
		}
	})
}

// A namespace whose turns do not end in time delays other such namespaces, and no others.
func TestLateNamespacesDelayOnlyEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Turns{Slots: 2, Share: 1, Slice: time.Second, Grace: 3 * time.Second, Late: errors.New("late"), LateFor: 5 * time.Minute}
		for _, late := range []string{"a", "b", "c", "d"} {
			occupy(t, all, late, time.Hour)
		}
		occupy(t, all, "another", 0)
		require.Equal(t, 8*time.Second, pass(t.Context(), t, all, "prompt"), "nothing is known about them yet")
		for range 10 {
			occupy(t, all, "a", time.Hour)
			occupy(t, all, "b", time.Hour)
			require.Zero(t, pass(t.Context(), t, all, "prompt"), "a slot is free")
			task, waits := Measure(t.Context())
			require.Positive(t, pass(task, t, all, "c"))
			require.Zero(t, waits.Total(), "a late namespace waits because of itself")
		}
		time.Sleep(6 * time.Minute)
		occupy(t, all, "a", time.Second)
		occupy(t, all, "b", time.Second)
		require.Equal(t, time.Second, pass(t.Context(), t, all, "prompt"), "they are not late anymore")
	})
}

func TestLateNamespacesComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Turns{Slots: 1, Share: 1, Slice: time.Second, Grace: 3 * time.Second, Late: errors.New("late"), LateFor: 5 * time.Minute}
		occupy(t, all, "late", time.Hour)
		pass(t.Context(), t, all, "prompt")
		occupy(t, all, "other", time.Second)
		occupy(t, all, "late", time.Hour)
		require.Equal(t, time.Second, pass(t.Context(), t, all, "prompt"), "although it was served more recently")
		occupy(t, all, "slow", 1500*time.Millisecond)
		require.Equal(t, 4*time.Second+1500*time.Millisecond, pass(t.Context(), t, all, "prompt"))
		occupy(t, all, "other", time.Second)
		occupy(t, all, "late", time.Hour)
		require.Equal(t, time.Second+4*time.Second, pass(t.Context(), t, all, "slow"), "it was served more recently")
	})
}

// A registry may be slow, and late namespaces must get turns however many others have quick calls.
func TestLateNamespacesKeepHalfOfTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Turns{Slots: 2, Share: 1, Slice: time.Second, Grace: 3 * time.Second, Late: errors.New("late"), LateFor: 5 * time.Minute}
		occupy(t, all, "late", 2*time.Second)
		time.Sleep(time.Millisecond) // so that its slice ends first, and it is asked to yield
		occupy(t, all, "other", 2*time.Second)
		pass(t.Context(), t, all, "prompt")
		time.Sleep(time.Second)
		for range 50 {
			for _, quick := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
				occupy(t, all, quick, 500*time.Millisecond)
			}
			require.LessOrEqual(t, pass(t.Context(), t, all, "late"), time.Second)
			time.Sleep(500 * time.Millisecond)
		}
	})
}
