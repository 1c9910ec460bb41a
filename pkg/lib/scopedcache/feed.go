package scopedcache

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is the state of a claim.
type State string

// States of a claim.
const (
	// Syncing means that the objects are being listed for the first time.
	Syncing State = "Syncing"
	// Live means that the objects are watched.
	Live State = "Live"
	// Denied means that the cache's identity is not allowed to list or watch the objects.
	Denied State = "Denied"
	// Absent means that the server does not serve the kind.
	Absent State = "Absent"
	// Backoff means that the watch failed for another reason and is retried. Get still returns the objects in the cache.
	Backoff State = "Backoff"
	// Invalid means that the scope is not valid for the kind, for example a namespace for a cluster-scoped kind.
	Invalid State = "Invalid"
)

// refused reports whether only a change in the cluster can make the claim Live.
func (s State) refused() bool { return s == Denied || s == Absent || s == Invalid }

// watchGrace is how long after its timeout the client ends a watch that the server has not ended.
const watchGrace = 10 * time.Second

// hintedAtOnce is the number of refused watches that are retried immediately after hints that permissions have changed. A retry
// that is refused again reduces the number until Options.ProbeQPS allows another retry.
const hintedAtOnce = 100

// A feed is a watch for a kind in one scope. Its events change the stored objects only while the feed serves the scope.
// Before that, it collects them, so that it can take over from another feed without a gap.
type feed struct {
	kind   *kind
	scope  Scope
	cancel context.CancelFunc
	// hint wakes a feed that is waiting for its next retry.
	hint chan struct{}
	// listing and retrying release the feed's slots for lists and for retries of refused watches.
	listing, retrying atomic.Pointer[func()]

	// The kind's mutex guards the following fields.

	stopped bool
	state   State
	err     error
	// missing contains the verbs that the server refused in the last attempt that was denied. refused contains those of
	// the current attempt.
	missing map[string]bool
	refused map[string]bool
	since   time.Time
	next    time.Time
	tries   int

	// ready is true if all objects of the scope are in collected or, while the feed is serving, in the store.
	ready     bool
	serving   bool
	collected map[string]client.Object
	// version is the latest resource version that the feed has seen.
	version string
	// floors contains the versions up to which other feeds have already reported the events of the scope or parts of
	// it.
	floors floors
	stream *stream
	// recheckNext is true if the server may have authorized the current request for a watch, or the watch that begins with a
	// list, before a Recheck. The watch must then be requested again.
	recheckNext bool
}

// run lists and watches until the context ends.
func (f *feed) run(ctx context.Context) {
	defer f.kind.cache.counts.running.Add(-1)
	for ctx.Err() == nil {
		err := f.listAndWatch(ctx)
		f.endSync()
		f.kind.streamOf(f).Stop() // the reflector does not stop a watch whose list it cannot store
		if ctx.Err() != nil {
			return
		}
		pause, refused := f.kind.ended(f, err)
		if hinted := f.sleep(ctx, pause); refused {
			f.awaitTurn(ctx, hinted)
		}
	}
}

// awaitTurn waits for the feed's turn in the budget for retries, which refused feeds share. After a hint that permissions have
// changed, the feed uses the budget for hints instead.
func (f *feed) awaitTurn(ctx context.Context, hinted bool) {
	owners := f.kind.ownersOf(f.scope)
	var done func()
	if !hinted {
		done = f.kind.cache.retries.take(ctx, owners, f.hint)
	}
	if done == nil && ctx.Err() == nil {
		done = f.kind.cache.hinted.take(ctx, owners, nil)
	}
	if done != nil {
		f.retrying.Store(&done)
	}
}

// sleep waits until the pause or the context ends. It returns true if a hint ended the pause early. Because hints may be frequent,
// they do not end a pause before it has lasted as long as the shortest watch.
func (f *feed) sleep(ctx context.Context, pause time.Duration) bool {
	least, over := time.NewTimer(min(pause, shortest)), time.NewTimer(pause)
	defer least.Stop()
	defer over.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	select {
	case <-ctx.Done():
	case <-over.C:
	case <-f.hint:
		return true
	}
	return false
}

// beginSync waits for one of the kind's slots for lists, and then for one of the cache's.
func (f *feed) beginSync(ctx context.Context) error {
	owners := f.kind.ownersOf(f.scope)
	ofKind := f.kind.lists.take(ctx, owners, nil)
	if ofKind == nil {
		return ctx.Err()
	}
	ofCache := f.kind.cache.lists.take(ctx, owners, nil)
	if ofCache == nil {
		ofKind()
		return ctx.Err()
	}
	done := func() { ofKind(); ofCache() }
	f.listing.Store(&done)
	return nil
}

func (f *feed) endSync() { giveBack(&f.listing) }

// giveBack releases a slot, if the feed has one.
func giveBack(place *atomic.Pointer[func()]) {
	if done := place.Swap(nil); done != nil {
		(*done)()
	}
}

func (f *feed) listAndWatch(ctx context.Context) error {
	if err := f.beginSync(ctx); err != nil {
		return err
	}
	key := f.kind.key
	mapping, err := f.kind.discovery.find(f.kind, false)
	if err != nil {
		return err
	}
	if err := f.scope.check(mapping); err != nil {
		return err
	}
	made, err := f.kind.cache.connection.requests(key, mapping)
	if err != nil {
		return err
	}
	if err := f.kind.began(ctx, f, mapping); err != nil {
		return err
	}
	example, err := key.example(f.kind.cache.options.Scheme)
	if err != nil {
		return err
	}
	quiet := logr.Discard()
	options := f.reflectorOptions(ctx)
	options.Logger, options.Name, options.TypeDescription = &quiet, key.gvk.String(), key.gvk.String()
	a := &attempt{feed: f, requests: made}
	reflector := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{ListWithContextFunc: a.list, WatchFuncWithContext: a.watch}, example, (*sink)(f), options)
	return reflector.ListAndWatchWithContext(klog.NewContext(ctx, quiet))
}

// attempt sends the requests of a reflector, which lists and watches the feed's scope once, and reports the server's responses.
type attempt struct {
	*feed
	requests requests
	// rejected is the error with which the server refused the watch.
	rejected error
	// streamed is true after a watch that begins with a list was opened.
	streamed bool
}

// list implements toolscache.ListWithContextFunc.
func (a *attempt) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if a.rejected != nil {
		return nil, a.rejected // the list is useless without a watch
	}
	narrow(&options, a.scope, a.kind.options.Label)
	switch {
	case options.ResourceVersion != "0":
	case a.streamed:
		// The server may have withheld the end of the list because its cache lags behind, so the list must not be
		// served from that cache.
		options.ResourceVersion = ""
	default:
		// An API server that lags behind must not return an older state than the feed has seen.
		options.ResourceVersion = cmp.Or(a.kind.versionOf(a.feed), "0")
	}
	out, err := a.requests.list(ctx, a.scope.namespace, options)
	a.kind.answered(a.feed, "list", err)
	return out, err
}

// watch implements toolscache.WatchFuncWithContext.
func (a *attempt) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	initial := options.SendInitialEvents != nil
	if initial && a.streamed {
		return nil, errStalled // after this error, the reflector lists first
	}
	narrow(&options, a.scope, a.kind.options.Label)
	options.Watch = true
	if period := a.kind.cache.recheckPeriod(); period > 0 && !initial {
		options.TimeoutSeconds = ptr.To(int64(max(1, period.Seconds()*(0.75+rand.Float64()/4)))) //nolint:gosec // G404: this spreads load
	}
	defer a.kind.requested(a.feed).Stop()
	s := a.newStream()
	opened, err := a.request(ctx, s, options)
	if initial && apierrors.IsInvalid(err) {
		return nil, err // an older server; after this error, the reflector lists first
	}
	a.kind.answered(a.feed, "watch", err)
	if apierrors.IsForbidden(err) {
		a.rejected = err
		a.probeList(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	a.streamed = a.streamed || initial
	return a.kind.opened(a.feed, s, opened, options), nil
}

// request requests a watch.
func (a *attempt) request(ctx context.Context, s *stream, options metav1.ListOptions) (watch.Interface, error) {
	a.kind.sends(a.feed)
	opened, err := a.requests.watch(withArrivals(ctx, s.arrived), a.scope.namespace, options)
	if err == nil && reflect.TypeOf(opened) == emptyWatch {
		// The connection was lost before the server responded. After this error, the reflector resumes the watch.
		err = apierrors.NewInternalError(io.ErrUnexpectedEOF)
	}
	return opened, err
}

// probeList lists a single object to find out whether list is also forbidden.
func (a *attempt) probeList(ctx context.Context, options metav1.ListOptions) {
	ctx, cancel := context.WithTimeout(ctx, a.kind.cache.options.limits.answer)
	defer cancel()
	_, err := a.requests.list(ctx, a.scope.namespace, metav1.ListOptions{Limit: 1, FieldSelector: options.FieldSelector})
	a.kind.answered(a.feed, "list", err)
}

func (f *feed) newStream() *stream {
	return newStream(f.kind.cache.options.limits, func(s *stream) { f.kind.ending(f, s) })
}

// emptyWatch is the type of watch that client-go returns instead of an error when the connection is lost.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

// check returns an error if the scope is not valid for the kind.
func (s Scope) check(mapping *meta.RESTMapping) error {
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case !namespaced && s.namespace != "":
		return &scopeError{fmt.Sprintf("%s is cluster-scoped: the scope %q has a namespace", mapping.GroupVersionKind.GroupKind(), s)}
	case namespaced && s.object && s.namespace == "":
		return &scopeError{fmt.Sprintf("%s is namespaced: the scope %q has no namespace", mapping.GroupVersionKind.GroupKind(), s)}
	}
	return s.checkPath()
}

type scopeError struct{ text string }

func (e *scopeError) Error() string { return e.text }

// missingVerbs returns the verbs that the server refused in the last attempt, sorted.
func (f *feed) missingVerbs() []string { return slices.Sorted(maps.Keys(f.missing)) }

// floor returns the version up to which other feeds have already reported the events of an object.
func (f *feed) floor(namespace, name string) string { return f.floors.of(namespace, name) }

// reported returns the versions up to which this feed or its predecessors have reported the events of the scope and of
// parts of it.
func (f *feed) reported() floors {
	out := floors{}
	if f.version != "" {
		out[f.scope] = f.version
	}
	for scope, floor := range f.floors {
		out.raise(scope, floor)
	}
	return out
}

// saw records a resource version that the feed has reached.
func (f *feed) saw(version string) {
	if version == "" || older(version, f.version) {
		return
	}
	f.version = version
	maps.DeleteFunc(f.floors, func(_ Scope, floor string) bool { return !older(version, floor) })
}

// sink receives the objects and events that the feed's reflector reads. It implements toolscache.ReflectorStore.
type sink feed

// Add is called for a new object.
func (s *sink) Add(obj any) error { return s.kind.observe((*feed)(s), obj, false) }

// Update is called for a changed object.
func (s *sink) Update(obj any) error { return s.kind.observe((*feed)(s), obj, false) }

// Delete is called for a deleted object.
func (s *sink) Delete(obj any) error { return s.kind.observe((*feed)(s), obj, true) }

// Replace is called with the whole list.
func (s *sink) Replace(list []any, version string) error {
	defer (*feed)(s).endSync()
	return s.kind.listed((*feed)(s), list, version)
}

// Resync does nothing.
func (s *sink) Resync() error { return nil }

// Transformer returns the function that the reflector applies to each object of a list that is received as events, so
// that the complete objects are not kept until the list ends.
func (s *sink) Transformer() toolscache.TransformFunc {
	if s.kind.options.Transform == nil {
		return nil
	}
	return s.kind.transformEarly
}

// UpdateResourceVersion is called for each event, including bookmarks.
func (s *sink) UpdateResourceVersion(version string) { s.kind.progressed((*feed)(s), version) }

var (
	_ toolscache.ReflectorStore         = (*sink)(nil)
	_ toolscache.ResourceVersionUpdater = (*sink)(nil)
	_ toolscache.TransformingStore      = (*sink)(nil)
)

// Retry is the backoff for a refused or failed watch. The delay starts at Initial and doubles up to Max. Jitter reduces
// each delay by up to half.
type Retry struct {
	Initial, Max time.Duration
}

// mostDoublings is the maximum number of times that a backoff doubles.
const mostDoublings = 20

func (r Retry) after(tries int) time.Duration {
	wait := r.Max
	if tries < mostDoublings {
		wait = min(r.Max, r.Initial<<tries)
	}
	return wait/2 + rand.N(wait/2+1) //nolint:gosec // G404: this spreads load
}
