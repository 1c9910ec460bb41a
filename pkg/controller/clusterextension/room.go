package clusterextension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
)

const (
	// maxContents is the estimated memory (catalog.JSONCost) of all contents that are remembered between runs. The largest of the
	// bundles in test/corpus needs 20 MiB.
	maxContents = 128 << 20
	// costlyContent is the estimated memory above which the contents of one run count as costly, and maxCostly is the number of runs
	// with costly contents at the same time.
	costlyContent = 24 << 20
	maxCostly     = 2
	// crowdedFor is how long a run waits for its turn before the status says so. crowdedRetry is the time of the next attempt
	// if nothing wakes the extension earlier.
	crowdedFor   = time.Minute
	crowdedRetry = 10 * time.Second
)

// costOf estimates the memory that the parsed content takes.
func costOf(raw *catalog.Content) (cost int64) {
	for _, manifest := range raw.Manifests {
		cost += catalog.JSONCost(manifest)
	}
	return cost
}

// parse parses the content of a bundle, which the key identifies. If it is costly, this run must have one of the places for that;
// otherwise the error is an *errCrowded.
func (s *run) parse(ctx context.Context, key string, raw *catalog.Content) (b *bundle.Bundle, cost int64, err error) {
	ctx = catalog.RequestedBy(ctx, s.ext.Spec.Namespace)
	cost = costOf(raw)
	if err := s.admit(key, cost); err != nil {
		s.memory.Change(s.key(), func(is *remembered) { is.measured = measured{key, cost} })
		return nil, 0, err
	}
	if cost > costlyContent {
		b, err = bundle.ParseContent(ctx, raw)
		return b, cost, err
	}
	// The text may be YAML, whose objects can need more memory than its size suggests.
	b, err = bundle.ParseWithin(ctx, raw, costlyContent)
	if more, ok := errors.AsType[*bundle.CostError](err); ok {
		if err := s.admit(key, more.Cost); err != nil {
			s.memory.Change(s.key(), func(is *remembered) { is.measured = measured{key, more.Cost} })
			return nil, 0, err
		}
		b, err = bundle.ParseContent(ctx, raw)
	}
	if b != nil {
		cost = b.Cost
	}
	return b, cost, err
}

// admit records that the run is about to parse the content with a key. An error means that the run must end and wait for its turn.
func (s *run) admit(key string, cost int64) error {
	if s.parsed == nil {
		s.parsed = map[string]int64{}
	}
	s.parsed[key] = cost
	total := int64(0)
	for _, cost := range s.parsed {
		total += cost
	}
	if total <= costlyContent {
		return nil
	}
	return s.takePlace()
}

// takePlace gives the run one of the places of costly runs, unless it has one. Otherwise, the error is an *errCrowded.
func (s *run) takePlace() error {
	waited, ok := s.memory.places.take(s.key(), s.Clock.Now())
	if s.waits = !ok; s.waits {
		return &errCrowded{waited}
	}
	return nil
}

// awaitTurn returns an *errCrowded if an earlier run did not parse the content with this key because of its cost, and it is not the
// extension's turn yet. The content is then not read again.
func (s *run) awaitTurn(key string) error {
	if known := s.memory.Get(s.key()).measured; known.key == key {
		return s.admit(key, known.cost)
	}
	return nil
}

// measured is the cost of the content with a key that is not remembered, so that a run that waits for its turn does not read it.
type measured struct {
	key  string
	cost int64
}

// errCrowded means that as many runs with costly contents as there may be are not complete.
type errCrowded struct{ waited time.Duration }

func (e *errCrowded) Error() string {
	return fmt.Sprintf("waiting until other bundles that need much memory have been processed; at most %d are at a time", maxCostly)
}

// isCrowded reports whether a run must end and wait for its turn.
func isCrowded(err error) bool {
	_, ok := errors.AsType[*errCrowded](err)
	return ok
}

// interrupt decides how a run goes on that ended with an error before its conclusion. It ends without one if it is about an outdated
// object, or waits for its turn; the status reports only long waits.
func (s *run) interrupt(out outcome, err error) (_ outcome, after time.Duration, _ error) {
	crowded, isWaiting := errors.AsType[*errCrowded](err)
	switch {
	case errors.Is(err, errStale):
		return out, cacheLag, err
	case isWaiting && crowded.waited >= crowdedFor:
		s.wakeAfter(crowdedRetry)
		return rolling(crowded.Error()), 0, nil
	case isWaiting:
		return out, crowdedRetry, err
	}
	return out, 0, err
}

// places are the places of runs with costly contents. Extensions get them in the order of their first attempts. The zero
// value is ready to use.
type places struct {
	mu    sync.Mutex
	taken map[string]bool
	// queue contains the extensions that wait, in their order.
	queue []ticket
}

// ticket is an extension that has waited for a place since a time.
type ticket struct {
	name  string
	since time.Time
}

// take takes a place for an extension, unless it has one. If none is free, or others have waited longer for it, the extension is added
// to the queue. waited is how long it has been in the queue.
func (p *places) take(name string, now time.Time) (waited time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[name] {
		return 0, true
	}
	at := p.position(name)
	if at < 0 {
		at, p.queue = len(p.queue), append(p.queue, ticket{name, now})
	}
	if at >= maxCostly-len(p.taken) {
		return now.Sub(p.queue[at].since), false
	}
	if p.taken == nil {
		p.taken = map[string]bool{}
	}
	p.queue = slices.Delete(p.queue, at, at+1)
	p.taken[name] = true
	return 0, true
}

func (p *places) position(name string) int {
	return slices.IndexFunc(p.queue, func(t ticket) bool { return t.name == name })
}

// leave frees the place of an extension and, unless it still waits, removes it from the queue. It returns the extensions
// that can take a place now.
func (p *places) leave(name string, waits bool) (next []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.position(name)
	if !p.taken[name] && (at < 0 || waits) {
		return nil
	}
	delete(p.taken, name)
	if at >= 0 && !waits {
		p.queue = slices.Delete(p.queue, at, at+1)
	}
	for _, t := range p.queue[:min(len(p.queue), maxCostly-len(p.taken))] {
		next = append(next, t.name)
	}
	return next
}

// finish ends a run: its place is free for others, and its contents count as unused from now on.
func (s *run) finish() {
	s.leave(s.key(), s.waits)
	s.memory.finish(s.key())
}

// leave frees the place of an extension, and wakes those that can take one now. waits is true if the extension still waits.
func (r *Reconciler) leave(name string, waits bool) {
	for _, next := range r.memory.places.leave(name, waits) {
		if r.watches != nil {
			r.watches.wake(next)
		}
	}
}

// cost is the estimated memory of the contents that are remembered.
func (is *remembered) cost() (cost int64) {
	for _, c := range []*content{is.content, is.previous} {
		if c != nil {
			cost += c.cost
		}
	}
	return cost
}

// forgetContents makes the next run read the contents again, as after a restart.
func (is *remembered) forgetContents() {
	is.content, is.previous, is.forgot = nil, nil, true
}

// finish records that the run of an extension has ended. If all contents together exceed their limit, it forgets those of extensions
// without a run, beginning with those that have been unused for the longest time. Contents that are not kept in a ConfigMap are the
// last ones, because only the catalog has them (docs/adr/0073).
func (m *memory) finish(name string) {
	m.finishing.Lock()
	defer m.finishing.Unlock()
	if m.Get(name).uid != "" { // otherwise, the extension was forgotten
		m.uses++
		m.Change(name, func(is *remembered) {
			if is.running, is.used = false, m.uses; is.cost() > maxContents {
				is.forgetContents()
			}
		})
	}
	for _, idle := range m.idle() {
		m.Change(idle, func(is *remembered) {
			if !is.running {
				is.forgetContents()
			}
		})
	}
}

// idle returns the extensions whose contents are to be forgotten, so that the others do not exceed the limit.
func (m *memory) idle() (names []string) {
	type use struct {
		name   string
		unkept int
		used   uint64
		cost   int64
	}
	var all []use
	total := int64(0)
	m.Each(func(name string, is remembered) {
		cost := is.cost()
		if total += cost; is.running || cost == 0 {
			return
		}
		one := use{name: name, used: is.used, cost: cost}
		if is.keeping.problem != "" {
			one.unkept = 1
		}
		all = append(all, one)
	})
	if total <= maxContents {
		return nil
	}
	slices.SortFunc(all, func(a, b use) int { return cmp.Or(cmp.Compare(a.unkept, b.unkept), cmp.Compare(a.used, b.used)) })
	for _, one := range all {
		if total <= maxContents {
			break
		}
		total -= one.cost
		names = append(names, one.name)
	}
	return names
}
