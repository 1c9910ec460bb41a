package packagemanifest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// Bounds of the backoff between sessions that fail. A change to the APIService ends a pause.
	firstPause, lastPause = time.Second, time.Minute
	// completeAfter is the time after which all catalogs count as sent even if some are still being described.
	completeAfter = 10 * time.Second
)

// sessions is a manager.Runnable that connects to package-server while the APIService is available.
type sessions struct {
	server    Server
	keys      func() []types.NamespacedName
	wake      func(types.NamespacedName)
	available func(context.Context) bool
	// isGlobal reports whether a catalog is global. Global catalogs and those of tenants are subject to different limits.
	isGlobal func(types.NamespacedName) bool
	// notify is called when the refusal of a catalog changes.
	notify func(types.NamespacedName)
	// changed contains an element if the APIService has changed.
	changed chan struct{}

	mu  sync.Mutex
	now *session
}

// session is the time during which package-server runs without interruption.
type session struct {
	mu    sync.Mutex
	knows map[types.NamespacedName]Known
	// pending contains the catalogs that have to be compared before all catalogs count as sent. empty is closed when
	// pending becomes empty.
	pending map[types.NamespacedName]bool
	empty   chan struct{}
	// sizes contains the number of bytes that were sent for each catalog that package-server has, or unknownSize.
	sizes map[types.NamespacedName]int64
	// refusals contains why package-server does not list the current packages of a catalog.
	refusals map[types.NamespacedName]string
	// global and tenants contain the catalogs for which package-server has no room.
	global, tenants retries
	isGlobal        func(types.NamespacedName) bool
}

// unknownSize is the size of a catalog that package-server had at the beginning of the session. Only its removal counts as
// freeing room.
const unknownSize = 1

// wakeUp notifies Start that the APIService has changed.
func (s *sessions) wakeUp() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// current returns the current session, or nil.
func (s *sessions) current() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *sessions) setCurrent(now *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Start implements manager.Runnable.
func (s *sessions) Start(ctx context.Context) error {
	pause := firstPause
	for ctx.Err() == nil {
		if !s.available(ctx) {
			select {
			case <-s.changed:
			case <-ctx.Done():
			}
			continue
		}
		started := time.Now()
		err := s.run(ctx)
		if time.Since(started) > lastPause {
			pause = firstPause
		}
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).V(1).Info("The connection to package-server has ended", "reason", err.Error())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, lastPause)
		case <-s.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// run wakes all catalogs, so that they are compared with those of package-server. It returns when package-server stops.
func (s *sessions) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listing, end := context.WithTimeout(ctx, sendTimeout)
	knows, version, err := s.server.Catalogs(listing)
	end()
	if err != nil {
		return err
	}
	now := newSession(knows, s.isGlobal)
	for _, key := range s.keys() {
		now.pending[key] = true
	}
	all := make([]types.NamespacedName, 0, len(now.pending))
	for key := range now.pending {
		all = append(all, key)
	}
	if len(all) == 0 {
		close(now.empty)
	}
	s.setCurrent(now)
	defer func() {
		s.setCurrent(nil)
		for _, key := range now.refused() {
			s.notify(key)
		}
	}()
	for _, key := range all {
		s.wake(key)
	}
	completed := make(chan struct{})
	go func() {
		defer close(completed)
		if err := s.complete(ctx, now); err != nil {
			cancel(err)
		}
	}()
	err = s.server.Wait(ctx, version)
	cancel(errors.Join(err, context.Canceled))
	<-completed
	return context.Cause(ctx)
}

// newSession returns the session of a package-server that has the given catalogs.
func newSession(knows map[types.NamespacedName]Known, isGlobal func(types.NamespacedName) bool) *session {
	out := &session{
		knows: knows, pending: map[types.NamespacedName]bool{}, empty: make(chan struct{}), isGlobal: isGlobal,
		sizes: map[types.NamespacedName]int64{}, refusals: map[types.NamespacedName]string{},
	}
	for key := range knows {
		out.pending[key], out.sizes[key] = true, unknownSize
	}
	return out
}

// complete reports that all catalogs were sent.
func (s *sessions) complete(ctx context.Context, now *session) error {
	timer := time.NewTimer(completeAfter)
	defer timer.Stop()
	select {
	case <-now.empty:
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return s.server.Complete(ctx)
}

// known returns the version of a catalog that package-server has.
func (s *session) known(key types.NamespacedName) (Known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.knows[key]
	return known, ok
}

// set records the version of a catalog that package-server has; the zero value means that it has none.
func (s *session) set(key types.NamespacedName, k Known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k == (Known{}) {
		delete(s.knows, key)
		return
	}
	s.knows[key] = k
}

// retries returns the refused catalogs that are subject to the same limits as a catalog. The caller must hold the lock.
func (s *session) retries(key types.NamespacedName) *retries {
	if s.isGlobal(key) {
		return &s.global
	}
	return &s.tenants
}

// frees returns how often package-server has freed room that a catalog may use.
func (s *session) frees(key types.NamespacedName) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retries(key).freed
}

// refuse records that package-server had no room for a catalog. The argument is the result of frees before the catalog was sent.
func (s *session) refuse(key types.NamespacedName, frees int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries(key).add(key, frees)
}

// resize records the size of a catalog that package-server has stored; zero means that it was removed. That may free room for
// others.
func (s *session) resize(key types.NamespacedName, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.sizes[key]
	if s.sizes[key] = size; size == 0 {
		delete(s.sizes, key)
	}
	s.retries(key).stored(key)
	if size < before { // not the removal of a catalog that was only refused
		s.retries(key).free()
	}
}

// next returns the refused catalog that has to be sent next, if any, after an attempt to send the given one.
func (s *session) next(after types.NamespacedName) (types.NamespacedName, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.retries(after).next(after)
	if ok {
		s.knows[key] = Known{UID: s.knows[key].UID}
	}
	return key, ok
}

// setRefusal records why package-server does not list the current packages of a catalog; "" means that it does. It returns true
// if that has changed.
func (s *session) setRefusal(key types.NamespacedName, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.refusals[key]
	if s.refusals[key] = reason; reason == "" {
		delete(s.refusals, key)
	}
	return before != reason
}

func (s *session) refusal(key types.NamespacedName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals[key]
}

// refused returns the catalogs that have a refusal.
func (s *session) refused() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.refusals))
}

// done records that a catalog was compared.
func (s *session) done(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return
	}
	if delete(s.pending, key); len(s.pending) == 0 {
		close(s.empty)
	}
}
