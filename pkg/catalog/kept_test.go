package catalog

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsKeptIsAskedForInSteps(t *testing.T) {
	var asked []int64
	full := errors.New("it is full")
	k := Kept{Max: 1 << 20, Take: func(kept int64) error {
		if asked = append(asked, kept); kept > 4*keepStep {
			return full
		}
		return nil
	}}
	for range 4 {
		require.NoError(t, k.Add(keepStep/2))
	}
	require.NoError(t, k.Add(1))
	require.Equal(t, []int64{keepStep, 2 * keepStep, 3 * keepStep}, asked)
	require.NoError(t, k.Full())
	require.ErrorIs(t, k.Add(2*keepStep), full)
	require.ErrorIs(t, k.Add(0), full, "what had no room stays without")
	require.ErrorIs(t, k.Full(), full)
	require.Len(t, asked, 4, "nobody is asked again")

	k = Kept{Max: 1 << 20}
	require.NoError(t, k.Add(1<<20))
	require.EqualError(t, k.Add(1), "the catalog takes more than 1 MiB of memory, manifests aside")
}
