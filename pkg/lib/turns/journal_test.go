package turns

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/lib/journal"
)

// A turn during which a process ended waits in the next process, and uses no slot meanwhile.
func TestATurnOfASuspectWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		process := func() *Turns {
			j, err := journal.Open(path, clock.RealClock{})
			require.NoError(t, err)
			return &Turns{Slots: 1, Share: 1, Journal: j, Name: "image"}
		}
		_, _, err := process().Join(t.Context(), "a")
		require.NoError(t, err)

		all := process()
		began := time.Now()
		go func() {
			other, _, err := all.Join(t.Context(), "b")
			if err == nil {
				other.Leave()
			}
		}()
		turn, _, err := all.Join(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(began))
		turn.Leave()
		require.Equal(t, 1, process().Journal.Suspects()[0].Ends, "it ended before the next process")
	})
}
