package fairqueue

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// class is what is known of a group. Those of one class take turns in a ring, and the rings take turns.
type class int

const (
	// quick groups had a quick item lately, and no slow one.
	quick class = iota
	// unknown groups may be anything.
	unknown
	// slow groups had a slow item lately.
	slow
	classes
)

// turns is the storage of a work queue: rings of groups that take turns.
//
// The work queue asks for Len before each Pop, under a lock of its own, and its Get waits while that is 0. What
// makes it greater is a Push, which wakes a worker, or a release, after which the same worker asks: so neither may let more
// than one item be taken that could not be before.
type turns[T comparable] struct {
	mu      sync.Mutex
	groupOf func(T) string
	limits  Limits

	groups map[string]*group[T]
	// rings hold, in the order of their turns, the groups of which an item may be taken.
	rings [classes]*list.List
	// turn is the ring whose turn it is.
	turn class
	// slowLately and quickLately have the names of groups.
	slowLately, quickLately *cache.Expiring
	// taken is what is being worked on.
	taken map[T]taken
	items int
}

// group are the items of one group that wait, and how many are taken.
type group[T comparable] struct {
	name    string
	waiting []T
	working int
	// class is that of its ring, and place where it waits there for its turn; nil where it does not.
	class class
	place *list.Element
}

type taken struct {
	at    time.Time
	class class
}

func newTurns[T comparable](groupOf func(T) string, l Limits) *turns[T] {
	return &turns[T]{
		groupOf: groupOf, limits: l,
		groups: map[string]*group[T]{}, taken: map[T]taken{},
		rings:      [classes]*list.List{list.New(), list.New(), list.New()},
		slowLately: cache.NewExpiringWithClock(l.Clock), quickLately: cache.NewExpiringWithClock(l.Clock),
	}
}

// Touch implements workqueue.Queue.
func (t *turns[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (t *turns[T]) Push(item T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := t.groupOf(item)
	g := t.groups[name]
	if g == nil {
		g = &group[T]{name: name}
		t.groups[name] = g
	}
	g.waiting = append(g.waiting, item)
	t.items++
	if c := t.classOf(g); c < g.class {
		t.leave(g)
	}
	t.enter(g, t.classOf(g))
}

// Len implements workqueue.Queue: it is 0 where no item may be taken.
func (t *turns[T]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for c, ring := range t.rings {
		if t.mayWork(class(c)) {
			n += ring.Len()
		}
	}
	return n
}

func (t *turns[T]) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.items
}

// Pop implements workqueue.Queue.
func (t *turns[T]) Pop() T {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.next()
	t.turn = (c + 1) % classes
	g, _ := t.rings[c].Front().Value.(*group[T]) // nothing else is put in
	item := g.waiting[0]
	g.waiting = g.waiting[1:]
	g.working++
	t.items--
	t.taken[item] = taken{at: t.limits.Clock.Now(), class: c}
	t.leave(g)
	t.enter(g, max(c, t.classOf(g)))
	return item
}

// next is the class of which an item is taken. Where the clock or a release has stopped all of them since Len, the work queue
// gets one nevertheless.
func (t *turns[T]) next() class {
	waiting := class(0)
	for i := range classes {
		c := (t.turn + i) % classes
		if t.rings[c].Len() == 0 {
			continue
		}
		if t.mayWork(c) {
			return c
		}
		waiting = c
	}
	return waiting
}

// release says that an item is done.
func (t *turns[T]) release(item T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took, ok := t.taken[item]
	if !ok {
		return
	}
	delete(t.taken, item)
	g := t.groups[t.groupOf(item)]
	g.working--
	t.learn(g, t.limits.Clock.Since(took.at))
	// What waits moves up with the next Push only: a worker is free for one of the class of the item, and one asks.
	c := max(took.class, t.classOf(g))
	if c > g.class {
		t.leave(g)
	}
	t.enter(g, c)
}

// learn remembers a slow item for at least ten times as long as it took, so that its group cannot soon take as long again.
func (t *turns[T]) learn(g *group[T], took time.Duration) {
	if took > Slow {
		t.quickLately.Delete(g.name)
		t.slowLately.Set(g.name, nil, min(max(SlowFor, slowTimes*took), SlowForMost))
	} else if _, isSlow := t.slowLately.Get(g.name); !isSlow {
		t.quickLately.Set(g.name, nil, QuickFor)
	}
}

func (t *turns[T]) classOf(g *group[T]) class {
	if _, ok := t.slowLately.Get(g.name); ok {
		return slow
	}
	if _, ok := t.quickLately.Get(g.name); ok {
		return quick
	}
	return unknown
}

// mayWork says whether another worker may work for a group of the class: the slow have half of the workers, and the last quarter is
// for the quick. What has taken long by now counts as slow, whatever its group was when it was taken.
func (t *turns[T]) mayWork(c class) bool {
	working, slowly := 0, 0
	for _, took := range t.taken {
		switch {
		case took.class == slow || t.limits.Clock.Since(took.at) > Slow:
			slowly++
			working++
		case took.class == unknown:
			working++
		}
	}
	workers := t.limits.Workers
	most := max(workers-max(workers/4, 1), 1)
	switch c {
	case slow:
		return working < most && slowly < max(workers/2, 1)
	case unknown:
		return working < most
	}
	return true
}

// enter puts a group at the end of the ring of its class, where it has an item that may be taken.
func (t *turns[T]) enter(g *group[T], c class) {
	switch {
	case g.place != nil:
		return
	case len(g.waiting) == 0 && g.working == 0:
		delete(t.groups, g.name)
		return
	case len(g.waiting) == 0 || g.working >= t.limits.Share:
		return
	}
	g.class = c
	g.place = t.rings[c].PushBack(g)
}

func (t *turns[T]) leave(g *group[T]) {
	if g.place != nil {
		t.rings[g.class].Remove(g.place)
		g.place = nil
	}
}
