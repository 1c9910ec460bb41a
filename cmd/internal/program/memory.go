package program

import (
	"os"
	"runtime/debug"
)

// gcPercent is the default of GOGC in Remit's programs: the heap may grow by this percentage before garbage is collected.
// The programs are idle most of the time and allocate little compared to the objects in their caches, so more frequent
// collections cost less than the memory that Go's own default, 100, keeps unused (docs/benchmarks.md).
const gcPercent = 40

// LimitGarbage makes this program collect garbage more often than Go's default, unless GOGC is set.
func LimitGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
