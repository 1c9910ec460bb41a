package catalog

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReservesMemoryInSteps(t *testing.T) {
	var asked []int64
	full := errors.New("no memory is left")
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
	require.ErrorIs(t, k.Add(0), full, "the error is permanent")
	require.ErrorIs(t, k.Full(), full)
	require.Len(t, asked, 4, "nothing is reserved after an error")

	k = Kept{Max: 1 << 20}
	require.NoError(t, k.Add(1<<20))
	require.EqualError(t, k.Add(1), "the catalog uses more than 1 MiB of memory, excluding manifests")
}
