package program

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// current returns the percentage that is in effect.
func current() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

func TestGarbageIsCollectedMoreOftenUnlessGOGCIsSet(t *testing.T) {
	before := debug.SetGCPercent(gcPercent + 1)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "41")
	ManageMemory(t.Context())
	require.Equal(t, gcPercent+1, current())
	t.Setenv("GOGC", "")
	ManageMemory(t.Context())
	require.Equal(t, percentFor(readHeap().live), current())

	kept := make([]byte, 10*minGarbage)
	runtime.GC()
	require.Eventually(t, func() bool { return current() == gcPercent }, time.Minute, time.Millisecond, "the heap is large")
	runtime.KeepAlive(kept)
	runtime.GC()
	require.Eventually(t, func() bool { return current() > gcPercent }, time.Minute, time.Millisecond, "the heap is small")
}

func TestASmallHeapGrowsByAMinimumBeforeGarbageIsCollected(t *testing.T) {
	for live, percent := range map[uint64]int{0: 400, 4 << 20: 400, 15 << 20: 100, 16 << 20: 100, 20 << 20: 80, 39 << 20: 40, 40 << 20: 40, 1 << 30: 40} {
		require.Equal(t, percent, percentFor(live), "%d bytes", live)
	}
}

// released returns the number of bytes that were returned to the operating system.
func released() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapReleased
}

func keepCode() error { return nil }

func TestReturnsMemoryOnceWhenIdle(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const size = 256 << 20
	h := heap{}.trim(keepCode)
	for range size / (1 << 20) {
		runtime.KeepAlive(make([]byte, 1<<20))
	}
	before := released()
	h = h.trim(keepCode)
	require.LessOrEqual(t, released(), before, "the program is busy")
	h = h.trim(keepCode)
	require.Greater(t, released(), before+size/2, "the program is idle")
	require.Less(t, h.trimmed, uint64(size/2))

	cycles := collections()
	require.Equal(t, h.trimmed, h.trim(keepCode).trimmed)
	require.Equal(t, cycles, collections(), "the heap has not grown")
}

// For example, a large catalog was deleted. The heap does not grow, so only the live objects show it.
func TestReturnsTheMemoryOfObjectsThatAreNoLongerInUse(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const size = 128 << 20
	kept := make([]byte, size)
	h := heap{}.trim(keepCode).trim(keepCode)
	require.Greater(t, h.trimmed, uint64(size))
	runtime.KeepAlive(kept)
	runtime.GC()
	before := released()
	h = h.trim(keepCode)
	require.Greater(t, released(), before+size/2)
	require.Less(t, h.trimmed, uint64(size/2))
	cycles := collections()
	h.trim(keepCode)
	require.Equal(t, cycles, collections(), "nothing has changed since")
}

func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

func TestReleasesTheCodeWheneverTheProgramBecomesIdle(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var calls int
	release := func() error {
		calls++
		return errors.New("not supported by this kernel")
	}
	h := heap{}.trim(release)
	calls = 0
	runtime.KeepAlive(make([]byte, 2*idleBytes))
	h = h.trim(release)
	require.Zero(t, calls, "the program is busy")
	h = h.trim(release).trim(release)
	require.Equal(t, 1, calls, "the program is still idle")
	runtime.KeepAlive(make([]byte, 2*idleBytes))
	h.trim(release).trim(release)
	require.Equal(t, 2, calls)
}
