package pod

import "sync"

// broadcast wakes all waiters. To avoid missing a change, call C before reading the state that may change, and then wait on the
// channel.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{ch: make(chan struct{})} }

// C returns a channel that is closed at the next Fire.
func (b *broadcast) C() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

// Fire wakes all waiters.
func (b *broadcast) Fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
