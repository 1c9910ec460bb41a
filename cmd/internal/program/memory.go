package program

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcPercent is the default of GOGC in Remit's programs: the heap may grow by this percentage before garbage is collected. The
	// programs allocate little compared to the objects in their caches, so more frequent collections cost less than the memory that
	// Go's own default, 100, keeps unused and fragments (docs/benchmarks.md).
	gcPercent = 40
	// memoryCheck is the interval at which a program checks whether it is idle, that is, whether it has allocated less than idleBytes
	// in that time. Renewing its Lease and receiving a few events takes less, and an install takes more.
	memoryCheck = 20 * time.Second
	idleBytes   = 4 << 20
	// minGrowth is the least growth of the heap that is worth a garbage collection, as a fraction of the heap.
	minGrowth = 8
)

// ManageMemory makes the program collect garbage more often than Go's default, and return unused memory to the operating system when
// it is idle, as Remit's programs are most of the time. Otherwise, the memory in use would depend on what the program did last. If
// GOGC is set, ManageMemory does nothing. It returns immediately; the work ends with ctx.
func ManageMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	go func() {
		ticker := time.NewTicker(memoryCheck)
		defer ticker.Stop()
		for h := (heap{}); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				h = h.trim()
			}
		}
	}()
}

// heap describes the heap of this program at the last check, in bytes.
type heap struct {
	// allocated is the sum of all allocations so far. trimmed is the size of the heap after memory was returned last.
	allocated, trimmed uint64
}

// trim returns memory to the operating system if the program is idle and its heap has grown since the last time.
func (h heap) trim() heap {
	allocated, size := readHeap()
	if allocated-h.allocated < idleBytes && size > h.trimmed+h.trimmed/minGrowth {
		debug.FreeOSMemory()
		_, h.trimmed = readHeap()
	}
	h.allocated = allocated
	return h
}

// readHeap returns the sum of all allocations so far, and the size of the heap: what is in use and what is kept for later use.
func readHeap() (allocated, size uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples[1:] {
		size += s.Value.Uint64()
	}
	return samples[0].Value.Uint64(), size
}
