package catalogsource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
)

const (
	// maxPulls bounds the concurrent pulls of one namespace, so that slow registries of one tenant do not delay others.
	maxPulls = 2
	// pullTimeout bounds one pull.
	pullTimeout = 15 * time.Minute
	// pollJitter extends poll intervals by up to a tenth, to spread them.
	pollJitter = 0.1
	// shortestPoll is the minimum poll interval, regardless of the spec.
	shortestPoll = 30 * time.Second
)

// imageSpec is the part of a CatalogSource's spec about its image.
type imageSpec struct {
	// image is the reference, with a tag or digest and all templates resolved.
	image string
	// folder is the folder of the file-based catalog, if no label of the image names it.
	folder string
	// secrets are the names of its pull secrets.
	secrets []string
	// interval is the poll interval; zero disables polling.
	interval time.Duration
}

func (s imageSpec) equal(other imageSpec) bool {
	return s.image == other.image && s.folder == other.folder && s.interval == other.interval && slices.Equal(s.secrets, other.secrets)
}

// images is a manager.Runnable that owns the catalogs in images. Each has a goroutine, which pulls the image, sleeps
// until the next poll or retry, and wakes the CatalogSource when its status may change.
type images struct {
	client  *image.Client
	secrets *pullSecrets
	disk    *disk.Store
	budget  *budget
	// space counts the stored content of catalogs, and work their temporary files.
	space, work *budget
	wake        func(types.NamespacedName)
	clock       clock.Clock
	// parses limits the concurrent parsing of catalogs.
	parses *lanes

	background
	pulls slots

	mu     sync.Mutex
	byKey  map[types.NamespacedName]*imageEntry
	places *places
	serial int
}

// imageView is the observed state of an image.
type imageView struct {
	content
	// registry is the image reference by digest if the image contains no file-based catalog, so that it has to run as a registry.
	// good is then the content of an earlier image with the same name, if any.
	registry string
	state    connectivity.State
	// polled is when the image's digest was last requested successfully.
	polled *metav1.Time
}

type imageEntry struct {
	spec   imageSpec
	holder holder
	end    func() // ends the goroutine
	retry  retry

	mu sync.Mutex
	imageView
	// loaded is the digest of good or registry. refused is the digest of an image without a valid catalog, and refusal
	// the reason.
	loaded, refused string
	refusal         error
	// over is content that was read, but exceeded the budget.
	over oversize
	// gone means that the entry was replaced or removed.
	gone bool
}

func newImages(client *image.Client, store *disk.Store, budget *budget, wake func(types.NamespacedName), clock clock.Clock) *images {
	i := &images{
		client: client, disk: store, budget: budget, space: newDiskBudget(budget.exempt), work: newWorkBudget(budget.exempt), wake: wake, clock: clock, parses: newParseLanes(budget.exempt),
		byKey: map[types.NamespacedName]*imageEntry{}, pulls: slots{max: maxPulls},
	}
	i.places = &places{
		max: maxImages, has: fmt.Sprintf("%d catalogs in images", maxImages), then: "is pulled",
		exempt: budget.exempt, wake: func(key types.NamespacedName) { i.wake(key) }, of: map[string]*placesOf{},
	}
	return i
}

// ensure returns the observed state of a CatalogSource's image, and starts its goroutine if the limit allows it.
// Content is kept while the image is the same, regardless of other changes of the spec.
func (i *images) ensure(key types.NamespacedName, spec imageSpec) imageView {
	e, old, err := i.entry(key, spec)
	if err != nil {
		return imageView{content: content{err: err}, state: connectivity.TransientFailure}
	}
	if old != nil && old.holder != e.holder {
		i.release(old.holder) // this can wake other CatalogSources, so that i.mu must not be held
		old.discard()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.imageView
}

// entry returns the entry for a spec, and the entry that it replaced, if any.
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
	e.end = i.launch(func(ctx context.Context) { i.follow(ctx, key, e) })
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
	old.good, old.gone = nil, true // the new entry closes it
}

func (i *images) drop(key types.NamespacedName) {
	i.mu.Lock()
	e := i.byKey[key]
	i.remove(key)
	i.places.leave(key)
	i.mu.Unlock()
	if e != nil {
		i.release(e.holder)
		e.discard()
	}
}

// remove stops an entry's goroutine. The caller must hold the lock.
func (i *images) remove(key types.NamespacedName) {
	e, ok := i.byKey[key]
	if !ok {
		return
	}
	delete(i.byKey, key)
	e.end()
}

// follow checks an image after each poll interval or, after failures, with exponential backoff that relevant changes interrupt.
func (i *images) follow(ctx context.Context, key types.NamespacedName, e *imageEntry) {
	defer i.secrets.forget(e.retry)
	pause := firstReload
	for ctx.Err() == nil {
		e.retry.begin()
		view, found, err := i.check(ctx, key, e)
		if ctx.Err() != nil || !e.show(view) {
			i.abandon(found.snapshot)
			return
		}
		i.wake(key)
		if err == nil {
			i.secrets.forget(e.retry)
			pause = firstReload
			if !i.sleep(ctx, e.nextPoll()) {
				return
			}
			continue
		}
		var ok bool
		if pause, ok = i.secrets.wait(ctx, key.Namespace, e.retry, pause); !ok {
			return
		}
	}
}

// nextPoll returns the time until the next poll, or zero for none: images referenced by digest do not change.
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
	_, ok := retry(nil).until(ctx, i.clock, d)
	return ok
}

// show updates the view. It returns false if the entry no longer belongs to the CatalogSource.
func (e *imageEntry) show(v imageView) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return false
	}
	if e.good != v.good {
		dropContents(e.good)
	}
	e.imageView = v
	return true
}

// check requests the digest, and pulls the image if it is new. It returns an error only if retrying may help; errors of
// the image itself are in the view and remain until the image changes.
func (i *images) check(ctx context.Context, key types.NamespacedName, e *imageEntry) (imageView, finding, error) {
	free, err := i.pulls.take(ctx, key.Namespace)
	if err != nil {
		return imageView{}, finding{}, err
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	e.mu.Lock()
	view := e.imageView
	e.mu.Unlock()
	found, err := i.newer(ctx, key, e)
	asked := metav1.NewTime(i.clock.Now()).Rfc3339Copy()
	switch {
	case kit.Is[refused](err):
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
