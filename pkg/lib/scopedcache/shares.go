package scopedcache

import (
	"context"
	"slices"
	"sync"
	"time"
)

// shares is a limited number of slots for feeds. Owners take turns to get free slots, and the feeds of an owner get them in the
// order of their requests, so that an owner with many claims mainly delays its own feeds.
type shares struct {
	// longest is the maximum time for which a feed has a slot.
	longest time.Duration

	mu   sync.Mutex
	free int
	// waiting contains the pending requests of each owner. order contains the owners that have pending requests; the
	// owner whose turn is next comes first.
	waiting map[OwnerRef][]chan struct{}
	order   []OwnerRef
}

func newShares(places int, longest time.Duration) *shares {
	return &shares{longest: longest, free: places, waiting: map[OwnerRef][]chan struct{}{}}
}

// take waits for a slot, and returns a function that releases it early. If a hint is received or the context ends first,
// it withdraws the request and returns nil.
func (s *shares) take(ctx context.Context, owners []OwnerRef, hint <-chan struct{}) (giveBack func()) {
	owner, granted := s.request(owners)
	select {
	case <-granted:
		giveBack = sync.OnceFunc(s.giveBack)
		time.AfterFunc(s.longest, giveBack)
		return giveBack
	case <-hint:
	case <-ctx.Done():
	}
	if !s.withdraw(owner, granted) {
		s.giveBack()
	}
	return nil
}

// request requests a slot on behalf of the owner with the fewest pending requests. The channel is closed when the slot is
// granted.
func (s *shares) request(owners []OwnerRef) (OwnerRef, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var owner OwnerRef
	if len(owners) > 0 {
		owner = slices.MinFunc(owners, func(a, b OwnerRef) int { return len(s.waiting[a]) - len(s.waiting[b]) })
	}
	granted := make(chan struct{})
	if len(s.waiting[owner]) == 0 {
		s.order = append(s.order, owner)
	}
	s.waiting[owner] = append(s.waiting[owner], granted)
	s.grant()
	return owner, granted
}

// withdraw removes a request. It returns false if the slot was already granted.
func (s *shares) withdraw(owner OwnerRef, granted chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waiting[owner], granted)
	if at < 0 {
		return false
	}
	if s.waiting[owner] = slices.Delete(s.waiting[owner], at, at+1); len(s.waiting[owner]) == 0 {
		delete(s.waiting, owner)
		s.order = slices.DeleteFunc(s.order, func(o OwnerRef) bool { return o == owner })
	}
	return true
}

func (s *shares) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.grant()
}

// grant grants free slots. The caller holds the mutex.
func (s *shares) grant() {
	for s.free > 0 && len(s.order) > 0 {
		owner := s.order[0]
		s.order = s.order[1:]
		close(s.waiting[owner][0])
		s.free--
		if s.waiting[owner] = s.waiting[owner][1:]; len(s.waiting[owner]) == 0 {
			delete(s.waiting, owner)
		} else {
			s.order = append(s.order, owner)
		}
	}
}
