package scopedcache

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// began is called before a feed's first request.
func (k *kind) began(ctx context.Context, f *feed, mapping *meta.RESTMapping) error {
	k.mu.Lock()
	before := k.mapping
	k.mapping = mapping
	f.refused = map[string]bool{} // f.missing still contains the verbs of the previous attempt, which f.err names
	f.stream = nil
	k.mu.Unlock()
	if before == nil || before.Scope.Name() == mapping.Scope.Name() {
		return nil
	}
	// The kind has changed between namespaced and cluster-scoped. controller-runtime's reader depends on the scope, so it
	// must be recreated.
	example, err := k.key.example(k.cache.options.Scheme)
	if err != nil {
		return err
	}
	return k.cache.Cache.RemoveInformer(ctx, example)
}

// requested is called before each request for a watch, and before each pause after which the reflector repeats a
// request.
func (k *kind) requested(f *feed) *time.Timer {
	return k.expectWatchAfter(f, k.streamOf(f))
}

// expectWatchAfter is called when a watch is ending or has ended. A Live feed enters the state Backoff unless the returned timer is
// stopped or another watch is opened in time.
func (k *kind) expectWatchAfter(f *feed, before *stream) *time.Timer {
	return time.AfterFunc(k.cache.options.limits.answer, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !f.stopped && f.state == Live && f.stream == before {
			k.setState(f, Backoff, errEnded)
			k.wake()
		}
	})
}

// ending is called before a feed ends its watch. If this happens during the initial list, the reflector next lists without a
// watch, but only after the connection has closed.
func (k *kind) ending(f *feed, s *stream) {
	k.mu.Lock()
	if !f.stopped && f.state == Syncing && f.stream == s {
		k.setState(f, Backoff, errStalled)
		k.wake()
	}
	k.mu.Unlock()
	k.expectWatchAfter(f, s)
}

// sends is called immediately before each request for a watch. The server checks permissions when it receives the request, so
// pending hints are discarded.
func (k *kind) sends(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.recheckNext = false
	select {
	case <-f.hint:
	default:
	}
}

// answered is called with the result of each request.
func (k *kind) answered(f *feed, verb string, err error) {
	switch {
	case err != nil:
		f.endSync() // the reflector may retry for a long time, and other feeds need the slot
	case verb == "watch":
		giveBack(&f.retrying)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return
	}
	switch {
	case apierrors.IsForbidden(err):
		f.refused[verb] = true
	case err != nil && (f.state == Live || f.state == Syncing):
		// The reflector retries if the server is overloaded or unreachable.
		k.setState(f, Backoff, err)
		k.wake()
	}
}

// opened is called with each watch that the server has accepted.
func (k *kind) opened(f *feed, s *stream, opened watch.Interface, options metav1.ListOptions) watch.Interface {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.open(opened, options)
	f.stream = s
	resumed := options.SendInitialEvents == nil // otherwise, the feed is current only after the list
	if resumed {
		f.recheckIfDue()
	}
	if !f.stopped && resumed && f.state != Live && (f.ready || f.collected != nil) {
		k.setState(f, Live, nil)
		if !f.ready {
			f.ready = true
			k.plan(f.scope)
		}
		k.wake()
	}
	return f.stream
}

// streamOf returns a feed's watch, which may have ended. It returns nil if there is none.
func (k *kind) streamOf(f *feed) *stream {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return f.stream
}

// versionOf returns the latest resource version that a feed has seen, or "" if the feed starts from scratch.
func (k *kind) versionOf(f *feed) string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return f.version
}

// progressed is called with each resource version that the feed's watch reaches.
func (k *kind) progressed(f *feed, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.saw(version)
}

// observe is called with each event of a feed.
func (k *kind) observe(f *feed, received any, deleted bool) error {
	obj, err := k.transformed(received)
	switch {
	case err != nil && deleted:
		obj = k.lastState(received.(client.Object))
	case err != nil:
		return err
	}
	k.observed(f, obj, deleted)
	return nil
}

// observed is like observe, for an object in the form in which the cache stores it.
func (k *kind) observed(f *feed, obj client.Object, deleted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return
	}
	version := obj.GetResourceVersion()
	known := f.floor(obj.GetNamespace(), obj.GetName())
	f.saw(version)
	switch {
	case !f.scope.Covers(scopeOf(obj)): // some API servers ignore field selectors
	case !f.serving && f.collected == nil:
	case !f.serving && deleted:
		delete(f.collected, keyOf(obj))
	case !f.serving:
		f.collected[keyOf(obj)] = obj
	case known != "" && !older(known, version):
		// Another feed reported this event before the handover.
	case deleted:
		k.objects.remove(obj)
	default:
		k.objects.put(obj, false)
	}
}

// listed is called with all objects of a feed's scope. If the feed serves the scope, listed updates the stored objects.
// Otherwise, the feed keeps the objects until it takes over. If Transform returns an error, listed returns it, and the
// list is repeated.
func (k *kind) listed(f *feed, list []any, version string) error {
	collected := make(map[string]client.Object, len(list))
	for _, received := range list {
		obj, err := k.transformed(received)
		if err != nil {
			return err
		}
		if f.scope.Covers(scopeOf(obj)) {
			collected[keyOf(obj)] = obj
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return nil
	}
	isOpen := f.stream.isOpen() // otherwise the feed becomes Live and takes over when the server accepts the next watch
	if isOpen {
		f.ready = true
		k.setState(f, Live, nil)
		f.stream.listed(k.cache.recheckPeriod()) // the server ends a watch that begins with a list only after a longer timeout
		f.recheckIfDue()
	}
	if f.serving {
		if older(version, f.version) {
			// The server that responded lags behind. Keep what was already reported, and do not report it again.
			f.floors = f.reported()
		}
		k.replace(f, collected, version, false)
		f.saw(version)
	} else {
		f.collected, f.version = collected, version
		if isOpen {
			k.plan(f.scope)
		}
	}
	k.wake()
	return nil
}

// again is the delay before a watch that ended without an error is requested again. Like other delays, it doubles until a feed
// has been Live for longer than settled.
const (
	again   = 50 * time.Millisecond
	settled = 5 * time.Second
)

var (
	errEnded   = errors.New("the watch has ended")
	errStalled = errors.New("the initial list of the watch was not received completely")
)

// ended is called when a feed has stopped watching. It returns the delay before the next attempt and whether the server
// refused the watch.
func (k *kind) ended(f *feed, err error) (time.Duration, bool) {
	noMatch, cause := meta.IsNoMatchError(err), err
	if apierrors.IsNotFound(err) {
		_, cause = k.discovery.find(k, true) // the kind may no longer be served
		noMatch = meta.IsNoMatchError(cause)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return 0, false
	}
	var invalid *scopeError
	before := f.state
	switch {
	case err == nil:
		// The watch has ended, and the next one begins with a list. Until then, changes may be missing.
		k.setState(f, Backoff, errEnded)
		k.wake()
	case apierrors.IsForbidden(err):
		if len(f.refused) > 0 {
			f.missing = f.refused
		}
		k.refused(f, Denied, err, false)
	case noMatch:
		k.refused(f, Absent, absent(k.key.gvk, cause), true)
	case errors.As(err, &invalid):
		k.refused(f, Invalid, err, false)
	default:
		k.setState(f, Backoff, err)
		k.wake()
	}
	if before != f.state {
		k.cache.log.V(1).Info("Watch state changed", "kind", k.key.gvk.String(), "scope", f.scope.String(), "state", f.state, "reason", reasonOf(f.err))
	}
	pause := k.cache.options.Retry.after(f.tries)
	if err == nil {
		pause = Retry{Initial: again, Max: k.cache.options.Retry.Max}.after(f.tries)
	}
	f.tries++
	f.next = time.Now().Add(pause)
	return pause, f.state.refused()
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// refused records that the server refused a feed, which then no longer serves its scope. Objects that no other feed serves
// are dropped; handlers receive delete events for them only if deleted is true.
func (k *kind) refused(f *feed, state State, err error, deleted bool) {
	served, from := f.serving, f.reported()
	f.serving, f.ready, f.collected, f.version, f.floors = false, false, nil, "", nil
	same := f.state == state
	if !same {
		f.tries = 0
	}
	k.setState(f, state, err)
	if same && !served {
		return
	}
	if served {
		k.succeed(f.scope, from)
	}
	k.plan(f.scope)
	if served {
		k.abandon(f.scope, deleted)
	}
	k.wake()
}

func (k *kind) setState(f *feed, state State, err error) {
	if f.state != state {
		if f.state == Live && time.Since(f.since) > settled {
			f.tries = 0
		}
		f.since = time.Now()
		switch {
		case state == Denied:
			k.cache.counts.denied.Inc()
		case f.state == Denied && state == Live:
			k.cache.counts.recovered.Inc()
		}
	}
	f.state, f.err = state, err
}

// lastState returns the stored state of an object that was deleted, with the resource version of the deletion. If the object is
// not stored, it returns deleted, and callers use only the object's name.
func (k *kind) lastState(deleted client.Object) client.Object {
	stored, ok := k.objects.get(keyOf(deleted))
	if !ok {
		return deleted
	}
	out := stored.DeepCopyObject().(client.Object)
	out.SetResourceVersion(deleted.GetResourceVersion())
	return out
}

func (k *kind) transformed(received any) (client.Object, error) {
	k.setKind(received)
	if k.options.Transform != nil {
		changed, err := k.options.Transform(received)
		if err != nil {
			return nil, err
		}
		received = changed
		k.setKind(received)
	}
	return received.(client.Object), nil
}

// setKind sets the kind of an object, which the client leaves empty or sets to PartialObjectMetadata.
func (k *kind) setKind(received any) {
	if k.key.as != dynamicObjects {
		received.(client.Object).GetObjectKind().SetGroupVersionKind(k.key.gvk)
	}
}

// transformEarly applies Options.Transform to an object of a list that is being received. If Transform returns an
// error, which the reflector would ignore, it returns the object unchanged; listed returns the error later.
func (k *kind) transformEarly(received any) (any, error) {
	if obj, err := k.transformed(received); err == nil {
		return obj, nil
	}
	return received, nil
}
