package catalogsource

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/image"
)

const (
	// maxPulls bounds how many images of one namespace are pulled at once: the slow registries of one tenant
	// hold up nobody else.
	maxPulls = 2
	// pullTimeout bounds a pull.
	pullTimeout = 15 * time.Minute
	// pollJitter spreads polls: a tenth more at most.
	pollJitter = 0.1
	// shortestPoll is the shortest time between polls, whatever a spec says.
	shortestPoll = 30 * time.Second
)

// imageSpec is what a CatalogSource says of its image.
type imageSpec struct {
	// image is its name, with a tag or digest, all templates filled in.
	image string
	// folder of the file-based catalog, where the image has no label that says so.
	folder string
	// secrets are the names of its pull secrets.
	secrets []string
	// interval between polls; zero is never.
	interval time.Duration
}

func (s imageSpec) equal(other imageSpec) bool {
	return s.image == other.image && s.folder == other.folder && s.interval == other.interval && slices.Equal(s.secrets, other.secrets)
}

// images is a manager.Runnable that owns the catalogs in images: one goroutine each, which pulls, sleeps until
// the next poll or try, and wakes the CatalogSource when there is something to say.
type images struct {
	client *image.Client
	// access is on whose behalf a CatalogSource's image is read; done forgets what that rested on.
	access accessFunc
	done   func(retry)
	// watch has a pull that pauses tried again when a Secret changes, until the function that it returns is called.
	watch  func(ctx context.Context, namespace string, pull retry) (end func())
	disk   *disk.Store
	budget *budget
	// space counts what the catalogs have on disk, work what those take there that are being read.
	space, work *budget
	wake        func(types.NamespacedName)
	clock       clock.Clock
	// parses are the turns in which catalogs are read from files.
	parses   *lanes
	decoding *catalog.Decoding

	mu      sync.Mutex
	running context.Context // nil until Start
	group   sync.WaitGroup
	byKey   map[types.NamespacedName]*imageEntry
	places  *places
	serial  int
	pulls   map[string]chan struct{}
}

// imageView is what is to be said of an image.
type imageView struct {
	content
	// registry is the image by its digest where it carries no file-based catalog: it is a registry to be run. Then
	// good is what an earlier image of that name held, if anything.
	registry string
	state    connectivity.State
	// polled is when the registry was last asked, successfully, for the image's digest.
	polled *metav1.Time
}

type imageEntry struct {
	spec   imageSpec
	holder holder
	cancel context.CancelFunc // nil until the goroutine is launched
	retry  retry

	mu sync.Mutex
	imageView
	// loaded is the digest that good or registry is from, refused the one that was found to hold no good catalog, for
	// refusal.
	loaded, refused string
	refusal         error
	// over is what was read and had no place.
	over oversize
	// gone says that another entry, or none, has taken this one's place.
	gone bool
}

func newImages(client *image.Client, store *disk.Store, budget *budget, wake func(types.NamespacedName), clock clock.Clock) *images {
	i := &images{
		client: client, disk: store, budget: budget, space: newDiskBudget(budget.exempt), work: newWorkBudget(budget.exempt), wake: wake, clock: clock, parses: newParseLanes(budget.exempt), decoding: budget.decoding,
		byKey: map[types.NamespacedName]*imageEntry{}, pulls: map[string]chan struct{}{},
	}
	i.places = placesForImages(budget.exempt, func(key types.NamespacedName) { i.wake(key) })
	return i
}

// Start lets the goroutines run until ctx ends.
func (i *images) Start(ctx context.Context) error {
	i.mu.Lock()
	i.running = ctx
	for key, e := range i.byKey {
		i.launch(key, e)
	}
	i.mu.Unlock()
	<-ctx.Done()
	i.group.Wait()
	return nil
}

// ensure returns what there is of a CatalogSource's image, and sees to it that somebody looks after it, once there is a place.
// Content stays while the image is the same, whatever else of the spec changes.
func (i *images) ensure(key types.NamespacedName, spec imageSpec) imageView {
	e, old, err := i.entry(key, spec)
	if err != nil {
		return imageView{content: content{err: err}, state: connectivity.TransientFailure}
	}
	if old != nil && old.holder != e.holder {
		i.release(old.holder) // which wakes others of us
		old.letGo()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.imageView
}

// entry is the one for a spec, and the one that it took the place of, if any.
func (i *images) entry(key types.NamespacedName, spec imageSpec) (e, old *imageEntry, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	old = i.byKey[key]
	if old != nil && old.spec.equal(spec) {
		return old, nil, nil
	}
	if err := i.places.take(key); err != nil {
		return nil, nil, err
	}
	i.serial++
	e = &imageEntry{
		spec: spec, holder: holder{fromImage, key, i.serial}, retry: newRetry(), imageView: imageView{state: connectivity.Connecting},
	}
	if old != nil {
		i.remove(key)
		e.inherit(old)
	}
	i.byKey[key] = e
	i.launch(key, e)
	return e, old, nil
}

func (e *imageEntry) inherit(old *imageEntry) {
	if e.spec.image != old.spec.image || e.spec.folder != old.spec.folder {
		return
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	e.imageView, e.loaded, e.refused, e.refusal = old.imageView, old.loaded, old.refused, old.refusal
	e.holder, e.over = old.holder, old.over
	old.good, old.gone = nil, true // it is closed by whoever has it now
}

func (i *images) drop(key types.NamespacedName) {
	i.mu.Lock()
	e := i.byKey[key]
	i.remove(key)
	i.places.leave(key)
	i.mu.Unlock()
	if e != nil {
		i.release(e.holder)
		e.letGo()
	}
}

// remove ends an entry's goroutine. The caller holds the lock.
func (i *images) remove(key types.NamespacedName) {
	e, ok := i.byKey[key]
	if !ok {
		return
	}
	delete(i.byKey, key)
	if e.cancel != nil {
		e.cancel()
	}
}

// launch starts the goroutine of an entry once there is a context to run it under. The caller holds the lock.
func (i *images) launch(key types.NamespacedName, e *imageEntry) {
	if i.running == nil || i.running.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(i.running)
	e.cancel = cancel
	slots, ok := i.pulls[key.Namespace]
	if !ok {
		slots = make(chan struct{}, maxPulls)
		i.pulls[key.Namespace] = slots
	}
	i.group.Go(func() {
		defer cancel()
		i.follow(ctx, key, e, slots)
	})
}

// follow looks at an image, again after each poll interval, and after a pause that doubles where it failed, or is cut
// short by what may mend it.
func (i *images) follow(ctx context.Context, key types.NamespacedName, e *imageEntry, slots chan struct{}) {
	defer i.done(e.retry)
	pause := firstReload
	for ctx.Err() == nil {
		e.retry.begin()
		view, found, err := i.look(ctx, key, e, slots)
		if ctx.Err() != nil || !e.show(view) {
			i.abandon(found.snapshot)
			return
		}
		i.wake(key)
		if err == nil {
			i.done(e.retry)
			pause = firstReload
			if !i.sleep(ctx, e.nextPoll()) {
				return
			}
			continue
		}
		end := i.watch(ctx, key.Namespace, e.retry)
		asked, ok := e.retry.sleep(ctx, i.clock, wait.Jitter(pause, pollJitter))
		if end(); !ok {
			return
		}
		pause = nextPause(pause, asked)
	}
}

// nextPoll is how long to leave an image alone; zero is for ever: one that is named by its digest does not change.
func (e *imageEntry) nextPoll() time.Duration {
	if e.spec.interval == 0 || isDigest(e.spec.image) {
		return 0
	}
	return wait.Jitter(max(e.spec.interval, shortestPoll), pollJitter)
}

func (i *images) sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		<-ctx.Done()
		return false
	}
	timer := i.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// show reports false where the entry is no longer the CatalogSource's.
func (e *imageEntry) show(v imageView) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return false
	}
	if e.good != v.good {
		letGo(e.good)
	}
	e.imageView = v
	return true
}

// look is one visit: it asks for the digest, and pulls what is new. The error is one that another try may mend;
// what is wrong with the image itself is in the view only, and ends with another image.
func (i *images) look(ctx context.Context, key types.NamespacedName, e *imageEntry, slots chan struct{}) (imageView, finding, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return imageView{}, finding{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	e.mu.Lock()
	view := e.imageView
	e.mu.Unlock()
	found, err := i.newer(ctx, key, e)
	asked := metav1.NewTime(i.clock.Now()).Rfc3339Copy()
	switch {
	case errors.Is(err, errRefused):
		view.err, view.state, view.polled = err, connectivity.TransientFailure, &asked
		return view, found, nil
	case err != nil:
		view.err, view.state = err, connectivity.TransientFailure
		return view, found, err
	case found.registry != "":
		view.registry = found.registry
	case found.snapshot != nil:
		view.good, view.registry = found.snapshot, ""
	}
	view.err, view.state, view.polled = nil, connectivity.Ready, &asked
	return view, found, nil
}
