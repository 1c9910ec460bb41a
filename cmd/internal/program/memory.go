package program

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// gcPercent and minGarbage determine when garbage is collected: when the heap has grown by this percentage, or by this number of
	// bytes if that is more. With Go's own default, 100%, more memory would be unused and fragmented in a cluster with many namespaces.
	// With only a percentage, a small heap would be collected several times in each second of a busy time (docs/benchmarks.md).
	gcPercent  = 40
	minGarbage = 16 << 20
	// memoryCheck is the interval at which a program checks whether it is idle, that is, whether it has allocated less than idleBytes
	// in that time. Renewing its Lease and receiving a few events takes less, and an install takes more.
	memoryCheck = 20 * time.Second
	idleBytes   = 4 << 20
	// maxPercent limits the percentage for the small heap of a program that has just started.
	maxPercent = 400
	// minGrowth is the divisor for the least growth of the heap that is worth a garbage collection: an eighth of the heap.
	minGrowth = 8
)

// ManageMemory makes the program collect garbage more often than Go's default, and return unused memory to the operating system when
// it is idle, as Remit's programs are most of the time. Otherwise, the memory in use would depend on what the program did last. The
// memory includes the pages of the executable, many of which only the start of a program needs. If GOGC is set, ManageMemory does
// nothing. It returns immediately; the work ends with ctx.
func ManageMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(percentFor(readHeap().live))
	afterCollections(ctx, func() { debug.SetGCPercent(percentFor(readHeap().live)) })
	go func() {
		ticker := time.NewTicker(memoryCheck)
		defer ticker.Stop()
		for h := (heap{}); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				h = h.trim(releaseCode)
			}
		}
	}()
}

// afterCollections calls do after each garbage collection until ctx ends. It relies on the finalizer of an object that nothing
// references.
func afterCollections(ctx context.Context, do func()) {
	type unused struct{ _ *int } // with a pointer, so that it is not allocated together with other objects
	runtime.SetFinalizer(&unused{}, func(*unused) {
		if ctx.Err() == nil {
			do()
			afterCollections(ctx, do)
		}
	})
}

// heap describes the heap of this program at the last check, in bytes.
type heap struct {
	// allocated is the sum of all allocations so far.
	allocated uint64
	// trimmed is the size of the heap after memory was returned last, and overhead the part of it that was not in use.
	trimmed, overhead uint64
	// idle reports whether the program was idle at the last check.
	idle bool
}

// trim returns memory to the operating system if the program is idle and its heap has grown since the last time, or part of what was in
// use then no longer is. It calls release when the program becomes idle.
func (h heap) trim(release func() error) heap {
	now := readHeap()
	idle := now.allocated-h.allocated < idleBytes
	least := min(h.trimmed, now.live+h.overhead)
	if idle && now.size > least+least/minGrowth {
		debug.FreeOSMemory()
		now = readHeap()
		h.trimmed, h.overhead = now.size, now.size-min(now.live, now.size)
	}
	if idle && !h.idle {
		if err := release(); err != nil {
			ctrl.Log.V(1).Info("Could not release the pages of the executable", "reason", err.Error())
		}
		now = readHeap() // releasing allocates, which does not make the program busy
	}
	h.allocated, h.idle = now.allocated, idle
	return h
}

// percentFor returns the value of GOGC for an amount of memory in use, in steps of 10.
func percentFor(live uint64) int {
	const step = 10
	percent := min(minGarbage*100/max(live, 1), maxPercent)
	return int(max(percent/step*step, gcPercent))
}

// reading is the state of the heap, in bytes: the sum of all allocations so far, the size including what is kept for later use, and
// what was in use after the last garbage collection.
type reading struct{ allocated, size, live uint64 }

func readHeap() (r reading) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	r.allocated, r.live = samples[0].Value.Uint64(), samples[1].Value.Uint64()
	for _, s := range samples[2:] {
		r.size += s.Value.Uint64()
	}
	return r
}
