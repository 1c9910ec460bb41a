package catalogsource

import (
	"context"
	"errors"
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
	"github.com/remit-olm/remit/pkg/catalog/pull"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

const (
	// maxPulls bounds the concurrent pulls of one namespace, so that slow registries of one tenant do not delay others.
	maxPulls = 2
	// pullTimeout bounds one pull (see withPullTimeout).
	pullTimeout = 15 * time.Minute
	// pollJitter extends poll intervals by up to a tenth, to spread the polls.
	pollJitter = 0.1
	// shortestPoll is the minimum poll interval, regardless of the spec.
	shortestPoll = 30 * time.Second
)

// imageSpec contains the fields of a CatalogSource's spec that concern its image.
type imageSpec struct {
	// image is the reference, with a tag or digest and all templates resolved.
	image string
	// folder is the directory of the file-based catalog, if no label of the image names it.
	folder string
	// secrets lists the names of the pull secrets.
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
	// space is the budget for the stored content of catalogs, and work is the budget for their temporary files.
	space, work *budget
	wake        func(types.NamespacedName)
	clock       clock.Clock
	// parses limits the concurrent parsing of catalogs, and unpacks that of the images of bundles.
	parses, unpacks *lanes
	// layers limits how many images of tenants are read from their registries at the same time.
	layers *turns.Turns

	kit.Background
	pulls kit.Slots

	mu     sync.Mutex
	byKey  map[types.NamespacedName]*imageEntry
	places *places
	serial int
}

// imageView is the observed state of an image.
type imageView struct {
	content
	// registry is the image reference by digest if the image contains no file-based catalog and therefore has to run as a
	// registry. good is then the content of an earlier image with the same name, if any.
	registry string
	state    connectivity.State
	// user is the user in the configuration of the registry's image, or "".
	user string
	// unread means that the image's manifest has never been read and could not be read at the last attempt, so that neither
	// its digest nor its content is known.
	unread bool
	// polled is when the digest of the image was last requested successfully.
	polled *metav1.Time
}

type imageEntry struct {
	spec   imageSpec
	holder holder
	end    func() // stops the goroutine
	retry  kit.Retry

	mu sync.Mutex
	imageView
	// loaded is the digest of good or registry. refused is the digest of an image without a valid catalog, and refusal
	// the reason.
	loaded, refused string
	refusal         error
	// over is content that was read but exceeded the budget.
	over oversize
	// discarded means that the entry was replaced or removed.
	discarded bool
}

func newImages(client *image.Client, store *disk.Store, budget *budget, wake func(types.NamespacedName), clock clock.Clock) *images {
	i := &images{
		client: client, disk: store, budget: budget, space: newDiskBudget(budget.exempt), work: newWorkBudget(budget.exempt), wake: wake, clock: clock, parses: newParseLanes(budget.exempt, lateFor), unpacks: newParseLanes(budget.exempt, 0), layers: newLayerTurns(),
		byKey: map[types.NamespacedName]*imageEntry{}, pulls: kit.Slots{Max: maxPulls},
	}
	i.places = &places{
		max: maxImages, has: fmt.Sprintf("%d catalogs that are read from images", maxImages), then: "will be loaded",
		exempt: budget.exempt, wake: func(key types.NamespacedName) { i.wake(key) }, byNamespace: map[string]*namespacePlaces{},
	}
	return i
}

// ensure returns the observed state of a CatalogSource's image, and starts its goroutine if needed. If the namespace has
// too many images, the observed state is an error. The content is kept as long as the image and the directory are the same,
// even if other fields of the spec change.
func (i *images) ensure(key types.NamespacedName, spec imageSpec) imageView {
	e, old, err := i.entry(key, spec)
	if err != nil {
		return imageView{content: content{err: err}, state: connectivity.TransientFailure}
	}
	if old != nil && old.holder != e.holder {
		i.release(old.holder) // release can wake other CatalogSources, so i.mu must not be held
		old.discard()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.imageView
}

// entry returns the entry for a spec, and the entry that it replaced, if any. It returns an error if the namespace has
// too many images.
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
		spec: spec, holder: holder{fromImage, key, i.serial}, retry: kit.NewRetry(), imageView: imageView{state: connectivity.Connecting},
	}
	if old != nil {
		i.remove(key)
		e.inherit(old)
	}
	i.byKey[key] = e
	e.end = i.Launch(func(ctx context.Context) { i.follow(ctx, key, e) })
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
	old.good, old.discarded = nil, true // the new entry owns the content now
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

// remove removes the entry of a CatalogSource, if any, and stops its goroutine. The caller must hold the lock.
func (i *images) remove(key types.NamespacedName) {
	e, ok := i.byKey[key]
	if !ok {
		return
	}
	delete(i.byKey, key)
	e.end()
}

// follow checks an image after each poll interval or, after failures, with exponential backoff that relevant changes
// cut short.
func (i *images) follow(ctx context.Context, key types.NamespacedName, e *imageEntry) {
	defer i.secrets.Forget(e.retry)
	pause := firstReload
	for ctx.Err() == nil {
		e.retry.Begin()
		view, found, err := i.check(ctx, key, e)
		if ctx.Err() != nil || !e.show(view) {
			i.abandon(found.snapshot)
			return
		}
		i.wake(key)
		if err == nil {
			i.secrets.Forget(e.retry)
			pause = firstReload
			if !i.sleep(ctx, e.nextPoll()) {
				return
			}
			continue
		}
		var ok bool
		if pause, ok = i.secrets.Wait(ctx, key.Namespace, e.retry, pause); !ok {
			return
		}
	}
}

// nextPoll returns the time until the next poll, or zero if the image is not polled. Images referenced by digest are
// not polled, because they do not change.
func (e *imageEntry) nextPoll() time.Duration {
	if e.spec.interval == 0 || image.IsDigest(e.spec.image) {
		return 0
	}
	return wait.Jitter(max(e.spec.interval, shortestPoll), pollJitter)
}

func (i *images) sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		<-ctx.Done()
		return false
	}
	_, ok := kit.Retry(nil).Until(ctx, i.clock, d)
	return ok
}

// show updates the view. It returns false if the entry no longer belongs to the CatalogSource.
func (e *imageEntry) show(v imageView) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.discarded {
		return false
	}
	if e.good != v.good {
		pull.Drop(e.good)
	}
	e.imageView = v
	return true
}

// check requests the digest, and pulls the image if it is new. It returns an error only if retrying may help; errors in
// the image itself are recorded in the view and remain until the image changes.
func (i *images) check(ctx context.Context, key types.NamespacedName, e *imageEntry) (imageView, finding, error) {
	free, err := i.pulls.Take(ctx, key.Namespace)
	if err != nil {
		return imageView{}, finding{}, err
	}
	defer free()
	ctx, cancel := withPullTimeout(ctx)
	defer cancel()
	e.mu.Lock()
	view := e.imageView
	e.mu.Unlock()
	found, err := i.newer(ctx, key, e)
	if late := context.Cause(ctx); err != nil && errors.Is(late, errPullTimeout) && !kit.Is[pull.Refused](err) {
		err = fmt.Errorf("%w: %w", late, err)
	}
	asked := metav1.NewTime(i.clock.Now()).Rfc3339Copy()
	switch {
	case kit.Is[pull.Refused](err):
		view.err, view.state, view.polled, view.unread = err, connectivity.TransientFailure, &asked, false
		return view, found, nil
	case err != nil:
		view.err, view.state = err, connectivity.TransientFailure
		view.unread = view.good == nil && view.registry == "" && kit.Is[unopenedError](err)
		return view, found, err
	case found.registry != "":
		view.registry, view.user = found.registry, found.user
	case found.snapshot != nil:
		view.good, view.registry = found.snapshot, ""
	}
	view.err, view.state, view.polled, view.unread = nil, connectivity.Ready, &asked, false
	return view, found, nil
}
