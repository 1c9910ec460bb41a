package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMergeTakesOneStepForEachEntry(t *testing.T) {
	list, more := make([]int, 40_000), make([]int, 40_000)
	for i := range list {
		list[i], more[i] = i, i+20_000
	}
	steps := 0
	got := merge(list, more, func(v *int) int {
		steps++
		return *v
	})
	require.Equal(t, 80_000, steps)
	require.Len(t, got, 60_000)
	require.Equal(t, 59_999, got[59_999])
}
