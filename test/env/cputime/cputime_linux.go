// Package cputime measures the CPU time of functions, which does not depend on what else the machine does, so that tests can compare
// two of them.
package cputime

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// Of returns the lowest CPU time of a few runs of a function that uses one goroutine.
func Of(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	best := time.Duration(1<<63 - 1)
	for range 3 {
		runtime.GC()
		start := ofThread()
		work()
		best = min(best, ofThread()-start)
	}
	return best
}

// rounds is the number of times that CheckLinear measures before it decides that a function is not linear.
const rounds = 5

// CheckLinear returns an error if a function of 4n values takes more than 8 times as long as that of n values. A function whose time
// is quadratic takes 16 times as long. Other programs that use the caches of the processor make larger functions slower than smaller
// ones: if the ratio is too large, CheckLinear measures again, and compares the lowest times.
func CheckLinear(n int, of func(n int) (work func())) error {
	few, many := time.Duration(1<<63-1), time.Duration(1<<63-1)
	for range rounds {
		few, many = min(few, Of(of(n))), min(many, Of(of(4*n)))
		if many <= 8*max(few, 5*time.Millisecond) {
			return nil
		}
	}
	return fmt.Errorf("%d values took %v, and %d took %v", n, few, 4*n, many)
}

func ofThread() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
