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
