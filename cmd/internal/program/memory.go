package program

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcPercent is the default of GOGC in Remit's programs: the heap may grow by this percentage before garbage is collected
	// (docs/benchmarks.md).
	gcPercent = 100
	// memoryCheck is the interval at which a program checks whether it is idle, that is, whether it has allocated less than idleBytes
	// in that time. Renewing its Lease and receiving a few events takes less, and an install takes more.
	memoryCheck = 20 * time.Second
	idleBytes   = 4 << 20
	// minGrowth is the divisor that determines which growth of the heap is worth a garbage collection: an eighth of the heap.
	minGrowth = 8
)

// ManageMemory lets the program's heap grow while it works, and returns unused memory to the operating system when it is idle, as
// Remit's programs are most of the time. Otherwise, the memory in use would depend on what the program did last. If GOGC is set,
// ManageMemory does nothing. It returns immediately; the work ends with ctx.
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
	// allocated is the sum of all allocations so far.
	allocated uint64
	// trimmed is the size of the heap after memory was returned last, and overhead the part of it that no object used.
	trimmed, overhead uint64
}

// trim returns memory to the operating system if the program is idle and its heap has grown since the last time, or objects that were
// in use at that time no longer are.
func (h heap) trim() heap {
	now := readHeap()
	least := min(h.trimmed, now.live+h.overhead)
	if now.allocated-h.allocated < idleBytes && now.size > least+least/minGrowth {
		debug.FreeOSMemory()
		after := readHeap()
		h.trimmed, h.overhead = after.size, after.size-min(after.live, after.size)
	}
	h.allocated = now.allocated
	return h
}

// sizes describes the heap of this program, in bytes.
type sizes struct {
	// allocated is the sum of all allocations so far. live is the size of the objects that were in use at the last garbage collection.
	allocated, live uint64
	// size is the size of the heap: its objects, including garbage, and what is kept for later use.
	size uint64
}

func readHeap() sizes {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	out := sizes{allocated: samples[0].Value.Uint64(), live: samples[1].Value.Uint64()}
	for _, s := range samples[2:] {
		out.size += s.Value.Uint64()
	}
	return out
}
