package pod

import "sync"

// broadcast wakes everybody who waits. Take C before looking at what may change, wait on it afterwards: nothing is missed.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{ch: make(chan struct{})} }

// C is closed at the next Fire.
func (b *broadcast) C() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

// Fire wakes all.
func (b *broadcast) Fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
