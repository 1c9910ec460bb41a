package existing

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// rlimitData is the limit of writable private memory, which syscall does not name.
const rlimitData = 2

// exceeded makes the program end when it has used the CPU time that limit allowed, which a Go program otherwise ignores.
var exceeded = sync.OnceFunc(func() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGXCPU)
	go func() {
		<-ended
		os.Exit(1)
	}()
})

// limit bounds the memory of this process, and the CPU time that it may use from now on.
func limit(seconds uint64) error {
	exceeded()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	var cpu syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &cpu); err != nil {
		return err
	}
	cpu.Cur = min(uint64(used.Utime.Sec+used.Stime.Sec)+1+seconds, cpu.Max) //nolint:gosec // CPU time is not negative
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &cpu); err != nil {
		return err
	}
	return syscall.Setrlimit(rlimitData, &syscall.Rlimit{Cur: MaxMemory, Max: MaxMemory})
}
