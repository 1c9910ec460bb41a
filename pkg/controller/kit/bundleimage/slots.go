package bundleimage

import (
	"context"
	"slices"
	"sync"
)

const (
	// maxUnpacks bounds the number of bundles that are unpacked concurrently for the catalogs of one namespace.
	maxUnpacks = 4
	// maxForOther bounds how many of them one other namespace can request, because all namespaces use the global catalogs.
	maxForOther = maxUnpacks / 2
)

// slots are the slots for the catalogs of each namespace. The namespaces that request bundles take turns, regardless of
// how many bundles they request.
type slots struct {
	mu sync.Mutex
	// lines contains the lines of the catalogs' namespaces.
	lines map[string]*line
}

// line contains the images that use the slots of one namespace's catalogs or wait for one. slots.mu protects it.
type line struct {
	namespace string
	// active counts the slots in use, and working those in use for each requester.
	active  int
	working map[string]int
	// order contains the requesters with images in waiting, in the order of their turns.
	order   []string
	waiting map[string][]*place
}

// place is the place of one image in a line. It advances with the turns of each namespace that has requested the image.
// slots.mu protects its fields.
type place struct {
	line       string
	requesters []string
	// granted is closed when the image gets a slot; it is nil while the image does not wait for one. by is the requester whose
	// turn it was.
	granted chan struct{}
	by      string
}

func newSlots() *slots { return &slots{lines: map[string]*line{}} }

// request records that a namespace has requested an image.
func (s *slots) request(p *place, requester string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(p.requesters, requester) {
		return
	}
	p.requesters = append(p.requesters, requester)
	if p.granted != nil {
		l := s.lineOf(p)
		l.add(p, requester)
		l.advance()
	}
}

// lineOf returns the line of an image. Lines are removed when they are empty. The caller must hold the lock.
func (s *slots) lineOf(p *place) *line {
	l := s.lines[p.line]
	if l == nil {
		l = &line{namespace: p.line, working: map[string]int{}, waiting: map[string][]*place{}}
		s.lines[p.line] = l
	}
	return l
}

// forget forgets who has requested an image, which must not be waiting.
func (s *slots) forget(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.requesters = nil
}

// take waits for a slot, and returns a function that frees it. It returns an error only if ctx is done.
func (s *slots) take(ctx context.Context, p *place) (free func(), err error) {
	granted := s.wait(p)
	select {
	case <-granted:
		return func() { s.free(p) }, nil
	case <-ctx.Done():
		s.free(p)
		return nil, ctx.Err()
	}
}

func (s *slots) wait(p *place) (granted <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lineOf(p)
	p.granted = make(chan struct{})
	granted = p.granted
	for _, requester := range p.requesters {
		l.add(p, requester)
	}
	l.advance()
	return granted
}

// free ends the use of a slot or, if there was no turn yet, the wait for one.
func (s *slots) free(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lineOf(p)
	defer func() {
		if l.active == 0 && len(l.order) == 0 {
			delete(s.lines, p.line)
		}
	}()
	if p.granted != nil {
		p.granted = nil
		l.drop(p)
		return
	}
	l.active--
	if l.working[p.by]--; l.working[p.by] == 0 {
		delete(l.working, p.by)
	}
	l.advance()
}

func (l *line) add(p *place, requester string) {
	if len(l.waiting[requester]) == 0 {
		l.order = append(l.order, requester)
	}
	l.waiting[requester] = append(l.waiting[requester], p)
}

// drop removes an image from the turns of all its requesters.
func (l *line) drop(p *place) {
	for _, requester := range p.requesters {
		rest := slices.DeleteFunc(l.waiting[requester], func(other *place) bool { return other == p })
		l.waiting[requester] = rest
		if len(rest) == 0 {
			delete(l.waiting, requester)
			l.order = slices.DeleteFunc(l.order, func(other string) bool { return other == requester })
		}
	}
}

// advance assigns the free slots.
func (l *line) advance() {
	for l.active < maxUnpacks {
		at := slices.IndexFunc(l.order, func(requester string) bool { return l.working[requester] < l.share(requester) })
		if at < 0 {
			return
		}
		by := l.order[at]
		l.order = append(slices.Delete(l.order, at, at+1), by)
		p := l.waiting[by][0]
		l.drop(p)
		l.active++
		l.working[by]++
		p.by = by
		close(p.granted)
		p.granted = nil
	}
}

// share returns the number of slots that a requester can use at a time.
func (l *line) share(requester string) int {
	if requester == l.namespace {
		return maxUnpacks
	}
	return maxForOther
}
