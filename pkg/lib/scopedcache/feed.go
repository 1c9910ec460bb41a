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
	// Syncing: its objects are being listed for the first time.
	Syncing State = "Syncing"
	// Live: its objects are watched.
	Live State = "Live"
	// Denied: the cache's identity may not list or watch them.
	Denied State = "Denied"
	// Absent: the server does not serve the kind.
	Absent State = "Absent"
	// Backoff: the watch failed for another reason and is retried. Objects that were read before stay readable.
	Backoff State = "Backoff"
	// Invalid: the scope does not fit the kind, for example a namespace for a kind that is cluster-scoped.
	Invalid State = "Invalid"
)

// refused returns true if only a change on the cluster can make the claim Live.
func (s State) refused() bool { return s == Denied || s == Absent || s == Invalid }

// watchGrace is the time after which a watch that the server should have ended is ended here.
const watchGrace = 10 * time.Second

// A feed is a watch of a kind in one scope. Its events reach the kind's objects only while it serves the scope; before
// that it collects them, so that it can take over from another feed without a gap. All fields below mu are guarded by
// the kind's mutex.
type feed struct {
	kind   *kind
	scope  Scope
	cancel context.CancelFunc
	// hint wakes a feed that waits before a retry.
	hint chan struct{}
	// syncing is true while the feed holds one of the cache's slots for lists.
	syncing atomic.Bool

	// mu: the kind's mutex guards what follows.

	stopped bool
	state   State
	err     error
	missing map[string]bool
	since   time.Time
	next    time.Time
	tries   int

	// ready is true if collected, or the kind's objects, have all objects of the scope.
	ready     bool
	serving   bool
	collected map[string]client.Object
	// version is the last resource version that the feed has seen.
	version string
	// floors are the versions up to which another feed has already reported the events of a part of the scope.
	floors map[Scope]string
	stream *stream
}

// run lists and watches until the context ends.
func (f *feed) run(ctx context.Context) {
	defer f.kind.cache.counts.running.Add(-1)
	for ctx.Err() == nil {
		started := time.Now()
		err := f.listAndWatch(ctx)
		f.endSync()
		if ctx.Err() != nil {
			return
		}
		pause, refused := f.kind.ended(f, err, time.Since(started))
		if !f.sleep(ctx, pause) && refused {
			// Refused feeds share a budget, unless there is a hint that the answer has changed.
			if turn := f.kind.cache.probes.Reserve(); f.sleep(ctx, turn.Delay()) {
				turn.Cancel()
			}
		}
	}
}

// sleep waits for a duration. It returns true if it was woken earlier by a hint.
func (f *feed) sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.hint:
		return true
	}
	return false
}

// beginSync waits for one of the cache's slots for lists.
func (f *feed) beginSync(ctx context.Context) error {
	if err := f.kind.cache.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	f.syncing.Store(true)
	return nil
}

func (f *feed) endSync() {
	if f.syncing.CompareAndSwap(true, false) {
		f.kind.cache.slots.Release(1)
	}
}

func (f *feed) listAndWatch(ctx context.Context) error {
	if err := f.beginSync(ctx); err != nil {
		return err
	}
	key := f.kind.key
	mapping, err := f.kind.cache.options.Mapper.RESTMapping(key.gvk.GroupKind(), key.gvk.Version)
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
	reflector := toolscache.NewReflectorWithOptions(f.listWatch(made), example, (*sink)(f), toolscache.ReflectorOptions{
		Logger: &quiet, Name: key.gvk.String(), TypeDescription: key.gvk.String(),
	})
	return reflector.ListAndWatchWithContext(klog.NewContext(ctx, quiet))
}

// listWatch makes the reflector's requests in the feed's scope, and reports the server's answers.
func (f *feed) listWatch(made requests) *toolscache.ListWatch {
	rejected := error(nil) // what the server answered to the watch
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options, f.scope, f.kind.options.Label)
			if rejected != nil {
				return nil, rejected // without the watch, the list would be of no use
			}
			if options.ResourceVersion == "0" {
				options.ResourceVersion = cmp.Or(f.kind.versionOf(f), "0") // a lagging server must not take the feed back in time
			}
			out, err := made.list(ctx, f.scope.namespace, options)
			f.kind.answered(f, "list", err)
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options, f.scope, f.kind.options.Label)
			options.Watch = true
			if period := f.kind.cache.recheckPeriod(); period > 0 && options.SendInitialEvents == nil {
				options.TimeoutSeconds = ptr.To(int64(max(1, period.Seconds()*(0.75+rand.Float64()/4)))) //nolint:gosec // G404: this spreads load
			}
			opened, err := made.watch(ctx, f.scope.namespace, options)
			if err == nil && reflect.TypeOf(opened) == emptyWatch {
				// The connection was lost before the server answered. The reflector resumes after such an error.
				err = apierrors.NewInternalError(io.ErrUnexpectedEOF)
			}
			f.kind.answered(f, "watch", err)
			if apierrors.IsForbidden(err) {
				rejected = err
				// A list of one object shows whether that permission is missing too.
				_, listErr := made.list(ctx, f.scope.namespace, metav1.ListOptions{Limit: 1, FieldSelector: options.FieldSelector})
				f.kind.answered(f, "list", listErr)
			}
			if err != nil {
				return nil, err
			}
			return f.kind.opened(f, opened, options), nil
		},
	}
}

// emptyWatch is the type of the watch that client-go returns instead of the error of a lost connection.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

// check returns an error if the kind has no such scope.
func (s Scope) check(mapping *meta.RESTMapping) error {
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case !namespaced && s.namespace != "":
		return &scopeError{fmt.Sprintf("%s is cluster-scoped: it has no %s", mapping.GroupVersionKind.GroupKind(), s)}
	case namespaced && s.object && s.namespace == "":
		return &scopeError{fmt.Sprintf("%s is namespaced: %s needs a namespace", mapping.GroupVersionKind.GroupKind(), s)}
	}
	return nil
}

type scopeError struct{ text string }

func (e *scopeError) Error() string { return e.text }

// missingVerbs returns the verbs that the server refused, sorted.
func (f *feed) missingVerbs() []string { return slices.Sorted(maps.Keys(f.missing)) }

// floor returns the version up to which an object's events were already reported by another feed.
func (f *feed) floor(namespace, name string) string {
	if v, ok := f.floors[Object(namespace, name)]; ok {
		return v
	}
	if v, ok := f.floors[Namespace(namespace)]; ok {
		return v
	}
	return f.floors[Cluster()]
}

// reported returns the version up to which the events of the feed's scope have been reported, by this feed or by those
// before it.
func (f *feed) reported() string {
	out := f.version
	for _, floor := range f.floors {
		if older(out, floor) {
			out = floor
		}
	}
	return out
}

// saw records a resource version.
func (f *feed) saw(version string) {
	if version == "" || older(version, f.version) {
		return
	}
	f.version = version
	for scope, floor := range f.floors {
		if older(version, floor) {
			return
		}
		delete(f.floors, scope)
	}
	f.floors = nil
}

// sink receives what the feed's reflector reads. It implements toolscache.ReflectorStore.
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

// UpdateResourceVersion is called for each event, also for bookmarks.
func (s *sink) UpdateResourceVersion(version string) { s.kind.progressed((*feed)(s), version) }

var (
	_ toolscache.ReflectorStore         = (*sink)(nil)
	_ toolscache.ResourceVersionUpdater = (*sink)(nil)
)

// stream is a watch that can be ended from outside.
type stream struct {
	watch.Interface
	guard *time.Timer
}

// endAfter ends the watch after a time.
func (s *stream) endAfter(period time.Duration) {
	if s.guard != nil {
		s.guard.Stop()
	}
	s.guard = time.AfterFunc(period, s.Interface.Stop)
}

// Stop ends the watch.
func (s *stream) Stop() {
	if s.guard != nil {
		s.guard.Stop()
	}
	s.Interface.Stop()
}

// newStream returns a stream that ends at the latest a little after the timeout, even if the server no longer answers.
func newStream(opened watch.Interface, seconds *int64) *stream {
	s := &stream{Interface: opened}
	if seconds != nil {
		s.guard = time.AfterFunc(time.Duration(*seconds)*time.Second+watchGrace, opened.Stop)
	}
	return s
}

// Retry is the backoff of a refused or failed watch: Initial, then twice as long each time, up to Max. Each wait is shortened at random by up to a half.
type Retry struct {
	Initial, Max time.Duration
}

func (r Retry) after(tries int) time.Duration {
	wait := r.Max
	if tries < 20 {
		wait = min(r.Max, r.Initial<<tries)
	}
	return wait/2 + rand.N(wait/2+1) //nolint:gosec // G404: this spreads load
}
