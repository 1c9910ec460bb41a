package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A namespace with many turns does not delay the one turn of another namespace.
func TestANamespaceThatWasServedLessRecentlyComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Turns{Slots: 1, Share: 1}
		first, _, err := all.Join(t.Context(), "busy")
		require.NoError(t, err)
		var order []string
		join := func(namespace string) {
			go func() {
				turn, _, err := all.Join(t.Context(), namespace)
				if err == nil {
					order = append(order, namespace)
					turn.Leave()
				}
			}()
			synctest.Wait()
		}
		join("busy")
		join("busy")
		join("other")
		require.Equal(t, 3, all.Waiting())
		first.Leave()
		synctest.Wait()
		require.Equal(t, []string{"other", "busy", "busy"}, order)
	})
}

func TestATurnThatDoesNotYieldIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("late")
		all := &Turns{Slots: 1, Share: 1, Slice: time.Second, Grace: time.Minute, Late: late}
		slow, ctx, err := all.Join(t.Context(), "slow")
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err(), "nothing else waits")
		go func() {
			if turn, _, err := all.Join(t.Context(), "other"); err == nil {
				turn.Leave()
			}
		}()
		time.Sleep(time.Minute + time.Second)
		require.ErrorIs(t, context.Cause(ctx), late)
		slow.Leave()
		synctest.Wait()
		require.Zero(t, all.Waiting())
	})
}

// Whoever yields or ends soon after being asked is not late, however often; whoever does not is, whether it then yields or ends.
func TestATurnThatYieldsSlowlyIsLate(t *testing.T) {
	const promptly = time.Second
	for name, row := range map[string]struct {
		after  time.Duration
		yields bool
		late   bool
	}{
		"ends soon":     {after: promptly - 1},
		"yields soon":   {after: promptly - 1, yields: true},
		"ends slowly":   {after: promptly, late: true},
		"yields slowly": {after: promptly, yields: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := &Turns{Slots: 2, Share: 1, Slice: time.Second, Grace: time.Minute, LateFor: time.Hour, Promptly: promptly}
				var held []*Turn
				for _, namespace := range []string{"a", "b"} {
					turn, _, err := all.Join(t.Context(), namespace)
					require.NoError(t, err)
					held = append(held, turn)
					time.Sleep(time.Millisecond) // the slice of the first one ends first
				}
				go func() {
					turn, _, err := all.Join(t.Context(), "c")
					if err == nil {
						time.Sleep(time.Millisecond)
						turn.Leave()
					}
				}()
				time.Sleep(time.Second - 2*time.Millisecond)
				synctest.Wait()
				time.Sleep(row.after)
				if row.yields {
					require.NoError(t, held[0].Yield(t.Context()))
				} else {
					held[0].Leave()
				}
				require.Equal(t, row.late, all.isLate(&Turn{Namespace: "a"}))
				held[0].Leave()
				held[1].Leave()
				time.Sleep(time.Second) // the third one ends
			})
		})
	}
}
