package turns

import (
	"os"
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

func TestATurnThatWaitsIsNotRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(path, clock.RealClock{})
		require.NoError(t, err)
		all := &Turns{Slots: 1, Share: 1, Slice: time.Second, Grace: time.Minute, Journal: j, Name: "image"}
		turn, _, err := all.Join(t.Context(), "a")
		require.NoError(t, err)
		var suspects []journal.Suspect
		go func() {
			other, _, err := all.Join(t.Context(), "b")
			if err == nil {
				suspects = recordedIn(t, path)
				other.Leave()
			}
		}()
		time.Sleep(2 * time.Second)
		require.NoError(t, turn.Yield(t.Context()))
		require.Len(t, suspects, 1)
		require.Equal(t, "b", suspects[0].Group)
		turn.Leave()
	})
}

// recordedIn returns what would be suspect if the process ended now.
func recordedIn(t *testing.T, path string) []journal.Suspect {
	t.Helper()
	records, err := os.ReadFile(path)
	require.NoError(t, err)
	file := path + "-copy"
	require.NoError(t, os.WriteFile(file, records, 0o600))
	j, err := journal.Open(file, clock.RealClock{})
	require.NoError(t, err)
	return j.Suspects()
}
