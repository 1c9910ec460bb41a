package execute

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits for the estimated memory of the existing objects of one install, in bytes. Others than the install may have written them.
const (
	// freeMemory is available to each install, and maxMemory to maxHeavy of them at a time.
	freeMemory, maxMemory = 24 << 20, 256 << 20
	maxHeavy              = 2
)

var heavy = semaphore.NewWeighted(maxHeavy)

// errHeavy means that other installs with large existing objects are in progress. A later attempt may succeed.
var errHeavy = errors.New("the existing objects of several other installs take much memory")

// memory counts the memory of the existing objects of an install. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	taken int64
	heavy bool
}

func (m *memory) take(cost int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken += cost
	switch {
	case m.taken > maxMemory:
		return fmt.Errorf("the existing objects of the install would need more than %d MiB of memory", maxMemory>>20)
	case m.taken <= freeMemory || m.heavy:
		return nil
	case !heavy.TryAcquire(1):
		return errHeavy
	}
	m.heavy = true
	return nil
}

// restart begins to count again: the objects that were read before are not kept together with the next ones.
func (m *memory) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken = 0
}

// Close must be called when the states that the Executor returned are no longer used.
func (e *Executor) Close() {
	if e == nil {
		return
	}
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	if e.memory.heavy {
		heavy.Release(1)
	}
	e.memory.heavy, e.memory.taken = false, 0
}
