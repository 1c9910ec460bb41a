package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/image"
)

const (
	// maxPulls bounds how many images of one namespace are pulled at once: the slow registries of one tenant
	// hold up nobody else.
	maxPulls = 2
	// maxParses bounds how many catalogs are read from files at once, and with it the memory that takes.
	maxParses = 2
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
	wake   func(types.NamespacedName)
	clock  clock.Clock
	parses chan struct{}

	mu      sync.Mutex
	running context.Context // nil until Start
	group   sync.WaitGroup
	byKey   map[types.NamespacedName]*imageEntry
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
}

func newImages(client *image.Client, store *disk.Store, wake func(types.NamespacedName), clock clock.Clock) *images {
	return &images{
		client: client, disk: store, wake: wake, clock: clock, parses: make(chan struct{}, maxParses),
		byKey: map[types.NamespacedName]*imageEntry{}, pulls: map[string]chan struct{}{},
	}
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

// ensure returns what there is of a CatalogSource's image, and sees to it that somebody looks after it. Content
// stays while the image is the same, whatever else of the spec changes.
func (i *images) ensure(key types.NamespacedName, spec imageSpec) imageView {
	e, old := i.entry(key, spec)
	if old != nil && old.holder != e.holder {
		i.budget.release(old.holder) // which wakes others of us
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.imageView
}

// entry is the one for a spec, and the one that it took the place of, if any.
func (i *images) entry(key types.NamespacedName, spec imageSpec) (e, old *imageEntry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	old = i.byKey[key]
	if old != nil && old.spec.equal(spec) {
		return old, nil
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
	return e, old
}

func (e *imageEntry) inherit(old *imageEntry) {
	if e.spec.image != old.spec.image || e.spec.folder != old.spec.folder {
		return
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	e.imageView, e.loaded, e.refused, e.refusal = old.imageView, old.loaded, old.refused, old.refusal
	e.holder = old.holder
}

func (i *images) drop(key types.NamespacedName) {
	i.mu.Lock()
	e := i.byKey[key]
	i.remove(key)
	i.mu.Unlock()
	if e != nil {
		i.budget.release(e.holder)
	}
}

// hold has new content counted, unless it was let go meanwhile.
func (i *images) hold(key types.NamespacedName, e *imageEntry, size int64) error {
	if err := i.budget.take(e.holder, size); err != nil {
		return err
	}
	i.mu.Lock()
	now := i.byKey[key]
	i.mu.Unlock()
	if now == nil || now.holder != e.holder {
		i.budget.release(e.holder)
	}
	return nil
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
		view, err := i.look(ctx, key, e, slots)
		if ctx.Err() != nil {
			return
		}
		e.show(view)
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

func (e *imageEntry) show(v imageView) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.imageView = v
}

// look is one visit: it asks for the digest, and pulls what is new. The error is one that another try may mend;
// what is wrong with the image itself is in the view only, and ends with another image.
func (i *images) look(ctx context.Context, key types.NamespacedName, e *imageEntry, slots chan struct{}) (imageView, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return imageView{}, ctx.Err()
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
		return view, nil
	case err != nil:
		view.err, view.state = err, connectivity.TransientFailure
		return view, err
	case found.registry != "":
		view.registry = found.registry
	case found.snapshot != nil:
		view.good, view.registry = found.snapshot, ""
	}
	view.err, view.state, view.polled = nil, connectivity.Ready, &asked
	return view, nil
}

// errRefused says that it is the image that is bad: it is not pulled again until it is another.
var errRefused = errors.New("refused")

type refused struct{ error }

func (r refused) Is(target error) bool { return target == errRefused }
func (r refused) Unwrap() error        { return r.error }

// finding is what a new image is: one with a catalog, or a registry to be run, by its digest. The zero value is for one that is
// not new.
type finding struct {
	snapshot *catalog.Snapshot
	registry string
}

// newer pulls an image unless its digest is the one that is loaded already. Of one that was found to be bad, the
// error is the same as then.
func (i *images) newer(ctx context.Context, key types.NamespacedName, e *imageEntry) (finding, error) {
	access, unread := i.access(ctx, key, e.spec.secrets, e.retry)
	found, err := i.newerAs(ctx, key, access, e)
	if err != nil && unread != nil && !errors.Is(err, errRefused) {
		return finding{}, fmt.Errorf("%w; its pull secrets: %w", err, unread)
	}
	return found, err
}

func (i *images) newerAs(ctx context.Context, key types.NamespacedName, access image.Access, e *imageEntry) (finding, error) {
	if e.loaded != "" || e.refused != "" {
		now, err := i.client.Digest(ctx, e.spec.image, access)
		switch {
		case err != nil:
			return finding{}, err
		case now.String() == e.refused:
			return finding{}, e.refusal
		case now.String() == e.loaded:
			return finding{}, nil
		}
	}
	opened, err := i.client.Open(ctx, e.spec.image, access)
	if err != nil {
		return finding{}, err
	}
	found := finding{}
	found.snapshot, err = i.pull(ctx, opened, e.spec.folder)
	if errors.Is(err, layer.ErrNoCatalog) {
		// By the digest of the index where there is one: the kubelet chooses the platform.
		found.registry, err = opened.Repository+"@"+opened.Named.String(), nil
	}
	if err == nil && found.snapshot != nil {
		err = i.hold(key, e, found.snapshot.Size())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case errors.Is(err, errRefused):
		e.refused, e.refusal = opened.Named.String(), err
	case err == nil:
		e.loaded, e.refused, e.refusal = opened.Named.String(), "", nil
		return found, nil
	}
	return finding{}, err
}

// pull reads the catalog in an image by way of files, unless it was read before and is on disk.
func (i *images) pull(ctx context.Context, from *image.Image, extract string) (*catalog.Snapshot, error) {
	folder, err := layer.Folder(ctx, from, extract)
	if err != nil {
		return nil, ofImage(err)
	}
	key := disk.Key(from.Repository, from.Digest.String(), folder)
	snap, err := i.disk.Snapshot(key)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return snap, err
	}
	dir, remove, err := i.disk.Work()
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := layer.Extract(ctx, from, folder, dir); err != nil {
		return nil, ofImage(err)
	}
	select {
	case i.parses <- struct{}{}:
		defer func() { <-i.parses }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return i.parse(ctx, key, dir)
}

func (i *images) parse(ctx context.Context, key, dir string) (*catalog.Snapshot, error) {
	contents, err := i.disk.NewContents()
	if err != nil {
		return nil, err
	}
	snap, err := fbc.LoadInto(ctx, os.DirFS(dir), contents)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case contents.Err() != nil:
		err = contents.Err() // our disk's fault, not the image's
	case err != nil:
		err = refused{fmt.Errorf("its file-based catalog: %w", err)}
	default:
		err = i.disk.PutSnapshot(key, snap, contents)
	}
	if err != nil {
		contents.Discard()
		return nil, err
	}
	return snap, nil
}

// ofImage tells what is the image's fault, and stays so, from what is not.
func ofImage(err error) error {
	if errors.Is(err, image.ErrImage) {
		return refused{err}
	}
	return err
}
