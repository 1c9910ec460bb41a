package fairqueue

import (
	"container/list"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// class is the recent behavior of a group. The groups of a class take turns in a ring, and the rings of the classes
// take turns.
type class int

// usageHalf is the time in which the usage of a slow group halves.
const usageHalf = 10 * time.Minute

const (
	// quick groups had a quick item recently, and no slow one for a long time.
	quick class = iota
	// unknown groups had no items recently.
	unknown
	// slow groups had a slow item recently.
	slow
	classes
)

// turns is the storage of a work queue: rings of groups that take turns.
//
// The work queue calls Len before each Pop, under its own lock, and Get waits while Len is 0. Len is increased by a
// Push, which wakes one worker, or by a release, after which the same worker calls Get. Therefore, neither Push nor
// release may make more than one additional item available.
type turns[T comparable] struct {
	mu      sync.Mutex
	groupOf func(T) string
	limits  Limits

	groups map[string]*group[T]
	// rings contains the groups with an available item, in the order of their turns.
	rings [classes]*list.List
	// turn is the class whose ring is next.
	turn class
	// slowGroups and quickGroups contain the names of the groups that are slow or quick, until they expire.
	// distrusted contains those that cannot be quick because of a slow item.
	slowGroups, quickGroups, distrusted *cache.Expiring
	// used contains the usage of the groups that had a slow item in the last SlowForMost.
	used *cache.Expiring
	// taken contains the items being processed.
	taken map[T]taken
	// skipped contains those of them that are only put back, which says nothing about their groups.
	skipped map[T]bool
	items   int
}

// group contains the waiting items of one group and the number of items being processed.
type group[T comparable] struct {
	name    string
	waiting []T
	working int
	// class is the class of the ring that the group is in or was in last. place is the group's position in the ring; nil
	// if it is not in a ring.
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
		groups: map[string]*group[T]{}, taken: map[T]taken{}, skipped: map[T]bool{},
		rings:      [classes]*list.List{list.New(), list.New(), list.New()},
		slowGroups: cache.NewExpiringWithClock(l.Clock), quickGroups: cache.NewExpiringWithClock(l.Clock), distrusted: cache.NewExpiringWithClock(l.Clock),
		used: cache.NewExpiringWithClock(l.Clock),
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

// Len implements workqueue.Queue. It returns 0 if no item is available.
func (t *turns[T]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.demote()
	n := 0
	for c, ring := range t.rings {
		if t.canWork(class(c)) {
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
	g := t.first(c)
	item := g.waiting[0]
	g.waiting = g.waiting[1:]
	g.working++
	t.items--
	t.taken[item] = taken{at: t.limits.Clock.Now(), class: c}
	t.leave(g)
	t.enter(g, max(c, t.classOf(g)))
	return item
}

// first returns the group of a class whose turn it is. Of the slow ones, it is the one whose items took the least time, because they
// share few workers: in turns, those that take ten minutes each would leave little for those that take seconds.
func (t *turns[T]) first(c class) (best *group[T]) {
	if c != slow {
		best, _ = t.rings[c].Front().Value.(*group[T]) // rings contain only groups
		return best
	}
	least, used := t.leastUsed(), time.Duration(0)
	for e := t.rings[c].Front(); e != nil; e = e.Next() {
		g, _ := e.Value.(*group[T])
		if its := t.usedBy(g, least); best == nil || its < used {
			best, used = g, its
		}
	}
	return best
}

// usage is how long the slow items of a group took, as of a time. It halves every usageHalf, so that a group that was slow for long does
// not come after others for as long again.
type usage struct {
	time time.Duration
	at   time.Time
}

// usedBy returns the usage of a group, or least if it has none. This is the least usage of those that wait: otherwise, whoever takes a new
// name for each slow item would always be first.
func (t *turns[T]) usedBy(g *group[T], least time.Duration) time.Duration {
	recorded, ok := t.used.Get(g.name)
	if !ok {
		return least
	}
	used, _ := recorded.(usage)
	return time.Duration(float64(used.time) * math.Exp2(-float64(t.limits.Clock.Since(used.at))/float64(usageHalf)))
}

// leastUsed returns the least usage of the slow groups that wait, or 0.
func (t *turns[T]) leastUsed() time.Duration {
	least := time.Duration(-1)
	for e := t.rings[slow].Front(); e != nil; e = e.Next() {
		g, _ := e.Value.(*group[T])
		if _, ok := t.used.Get(g.name); !ok {
			continue
		}
		if used := t.usedBy(g, 0); least < 0 || used < least {
			least = used
		}
	}
	return max(least, 0)
}

// next returns the class whose turn it is. If all classes have become blocked since Len was called, because time has
// passed or an item was released, next still returns a class with an available item, because the work queue requires
// an item.
func (t *turns[T]) next() class {
	waiting := class(0)
	for i := range classes {
		c := (t.turn + i) % classes
		if t.rings[c].Len() == 0 {
			continue
		}
		if t.canWork(c) {
			return c
		}
		waiting = c
	}
	return waiting
}

// release records that an item is done.
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
	if !t.skipped[item] {
		t.learn(g, t.limits.Clock.Since(took.at), t.limits.waited(item))
	}
	delete(t.skipped, item)
	// The group moves to a better class only with the next Push: only one worker calls Get after a release, and the move
	// could make items available for more than one.
	c := max(took.class, t.classOf(g))
	if c > g.class {
		t.leave(g)
	}
	t.enter(g, c)
}

// skip records that an item is put back without being processed.
func (t *turns[T]) skip(item T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skipped[item] = true
}

// learn records whether an item of the group was slow. A group remains slow for ten times the duration of the item, but
// for at least SlowFor and at most SlowForMost. This limits the share of time that slow items can take. It cannot be quick for much
// longer, because quick groups can use all workers. The time for which the item waited for other namespaces does not make its
// group slow, but the group cannot be quick, because the worker was not available in the meantime.
func (t *turns[T]) learn(g *group[T], took, waited time.Duration) {
	if took > Slow {
		t.quickGroups.Delete(g.name)
		t.remember(t.distrusted, g, min(max(SlowFor, distrustTimes*took), DistrustForMost))
		if own := took - waited; own > Slow {
			t.used.Set(g.name, usage{t.usedBy(g, t.leastUsed()) + own, t.limits.Clock.Now()}, SlowForMost)
			t.remember(t.slowGroups, g, min(max(SlowFor, slowTimes*own), SlowForMost))
		}
	} else if _, isDistrusted := t.distrusted.Get(g.name); !isDistrusted && !t.wasQuick(g) {
		t.quickGroups.Set(g.name, t.limits.Clock.Now(), QuickFor)
	}
}

// remember adds a group to a list for a duration, unless the list contains it for longer.
func (t *turns[T]) remember(list *cache.Expiring, g *group[T], d time.Duration) {
	until := t.limits.Clock.Now().Add(d)
	recorded, _ := list.Get(g.name)
	if longer, ok := recorded.(time.Time); !ok || longer.Before(until) {
		list.Set(g.name, until, d)
	}
}

// wasQuick reports whether a group had a quick item so recently that it need not be recorded again. Each record stays in memory
// until it expires, and a group can have many items in that time.
func (t *turns[T]) wasQuick(g *group[T]) bool {
	recorded, _ := t.quickGroups.Get(g.name)
	at, ok := recorded.(time.Time)
	return ok && t.limits.Clock.Since(at) < quickAgain
}

func (t *turns[T]) classOf(g *group[T]) class {
	if _, ok := t.slowGroups.Get(g.name); ok {
		return slow
	}
	if _, ok := t.quickGroups.Get(g.name); ok {
		return quick
	}
	return unknown
}

// demote moves groups of which an item has already run for a long time to the ring of the slow groups. This makes no additional
// items available.
func (t *turns[T]) demote() {
	for item, took := range t.taken {
		if t.limits.Clock.Since(took.at) <= Slow {
			continue
		}
		if g := t.groups[t.groupOf(item)]; g.place != nil && g.class < slow {
			t.leave(g)
			t.enter(g, slow)
		}
	}
}

// canWork reports whether another worker may process an item of the class: slow groups can use half of the workers,
// and the last quarter is reserved for quick groups. Items that have already run for a long time count as slow,
// regardless of their group's class.
func (t *turns[T]) canWork(c class) bool {
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

// enter appends the group to the ring of class c if it has an available item, and deletes the group if it has no items.
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
