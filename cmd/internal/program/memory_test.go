package program

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// current returns the percentage that is in effect.
func current() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

func TestGarbageIsCollectedMoreOftenUnlessGOGCIsSet(t *testing.T) {
	before := current()
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "100")
	LimitGarbage()
	require.Equal(t, before, current())
	t.Setenv("GOGC", "")
	LimitGarbage()
	require.Equal(t, gcPercent, current())
}
