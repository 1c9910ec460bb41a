package execute

import (
	"fmt"
	"sync"
)

// FreeMemory limits the estimated memory of the existing objects of each install, in bytes, and MaxMemory that of one that has a place
// (Executor.Place). Others than the install may have written these objects.
const (
	FreeMemory = 16 << 20
	MaxMemory  = 48 << 20
)

// memory counts the memory of the existing objects of an install. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	taken int64
	// refused is the error of the Place, so that the objects that are read at the same time have the same result.
	refused error
}

func (e *Executor) take(cost int64) error {
	m := &e.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken += cost
	switch {
	case m.taken > MaxMemory:
		return fmt.Errorf("the existing objects of the install would need more than %d MiB of memory", MaxMemory>>20)
	case m.taken > FreeMemory && m.refused == nil:
		m.refused = e.Place()
	}
	return m.refused
}

// restart begins to count again: the objects that were read before are not kept together with the next ones.
func (m *memory) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken, m.refused = 0, nil
}
