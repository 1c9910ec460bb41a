package clustercatalog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/catalog/pull"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
)

const (
	// maxPulls bounds the number of images that are read concurrently. Only one of them is parsed at a time.
	maxPulls = 2
	// pullTimeout bounds one attempt to read an image.
	pullTimeout = 15 * time.Minute
	// pollJitter extends poll intervals and delays by up to a tenth, to spread the requests.
	pollJitter = 0.1
)

// imageSpec contains the fields of a ClusterCatalog that concern its image.
type imageSpec struct {
	ref string
	// interval is the poll interval; zero disables polling.
	interval time.Duration
}

// loaded is content that was read.
type loaded struct {
	pull.Catalog
	// ref is the image, by digest.
	ref string
	// at is when the content was read.
	at time.Time
}

// view is the observed state of a ClusterCatalog's image.
type view struct {
	// good is the last good content, if any.
	good *loaded
	// checked means that the image has been checked since the spec changed.
	checked bool
	// err is the error of the last check. It is a pull.Refused if the image is the cause.
	err error
}

// catalogs is a manager.Runnable that owns the content of all ClusterCatalogs. Each has a goroutine, which reads the
// image, sleeps until the next poll or retry, and wakes the ClusterCatalog when its status may change.
type catalogs struct {
	client   *image.Client
	access   *access
	disk     *disk.Store
	wake     func(types.NamespacedName)
	clock    clock.Clock
	decoding *catalog.Decoding

	kit.Background
	pulls, parses kit.Slots

	mu     sync.Mutex
	byName map[string]*entry
}

type entry struct {
	spec imageSpec
	end  func() // stops the goroutine

	mu sync.Mutex
	view
	// refused is the digest of an image that was refused with the error refusal.
	refused string
	refusal error
	// discarded means that the entry was replaced or removed.
	discarded bool
}

// ensure returns the observed state of an image, and starts its goroutine if needed.
func (c *catalogs) ensure(name string, spec imageSpec) view {
	c.mu.Lock()
	e := c.byName[name]
	if e == nil || e.spec != spec {
		e = c.replace(name, e, spec)
	}
	c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.view
}

// replace starts the goroutine of a new spec, which inherits the content of the old one. The caller must hold the lock.
func (c *catalogs) replace(name string, old *entry, spec imageSpec) *entry {
	e := &entry{spec: spec}
	if old != nil {
		old.end()
		old.mu.Lock()
		e.good, old.discarded = old.good, true
		if spec.ref == old.spec.ref { // only the interval differs
			e.view, e.refused, e.refusal = old.view, old.refused, old.refusal
		}
		old.good = nil
		old.mu.Unlock()
	}
	c.byName[name] = e
	e.end = c.Launch(func(ctx context.Context) { c.follow(ctx, name, e) })
	return e
}

// drop stops the goroutine of a ClusterCatalog and deletes its content.
func (c *catalogs) drop(name string) {
	c.mu.Lock()
	e := c.byName[name]
	delete(c.byName, name)
	c.mu.Unlock()
	if e == nil {
		return
	}
	e.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.discarded = true
	e.good.drop()
}

// drop deletes the content on disk, unless another ClusterCatalog uses it.
func (l *loaded) drop() {
	if l != nil {
		pull.Drop(l.Snapshot)
	}
}

// follow checks an image, and checks it again after each poll interval or, after failures, with exponential backoff.
func (c *catalogs) follow(ctx context.Context, name string, e *entry) {
	pause := kit.FirstPause
	for {
		found, err := c.check(ctx, e)
		if ctx.Err() != nil || !e.show(found, err) {
			if !c.IsOver() {
				found.drop()
			}
			return
		}
		c.wake(types.NamespacedName{Name: name})
		next := e.nextPoll()
		if err != nil && !kit.Is[pull.Refused](err) {
			next, pause = wait.Jitter(pause, pollJitter), min(2*pause, kit.LastPause)
		} else {
			pause = kit.FirstPause
		}
		if !c.sleep(ctx, next) {
			return
		}
	}
}

// nextPoll returns the time until the next poll, or zero if the image is not polled.
func (e *entry) nextPoll() time.Duration {
	if e.spec.interval == 0 || image.IsDigest(e.spec.ref) {
		return 0
	}
	return wait.Jitter(e.spec.interval, pollJitter)
}

// sleep returns after the delay or, if the delay is zero, when ctx is done. It returns false if ctx is done.
func (c *catalogs) sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		<-ctx.Done()
		return false
	}
	_, ok := kit.Retry(nil).Until(ctx, c.clock, d)
	return ok
}

// show records the result of a check, and deletes the content that it replaces. It returns false if the entry was
// replaced or removed in the meantime.
func (e *entry) show(found *loaded, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.discarded {
		return false
	}
	if found != nil {
		e.good.drop()
		e.good = found
	}
	e.checked, e.err = true, err
	return true
}

// check requests the digest of an image, and reads the image if it is new. It returns nil if the content is up to date.
func (c *catalogs) check(ctx context.Context, e *entry) (*loaded, error) {
	free, err := c.pulls.Take(ctx, "")
	if err != nil {
		return nil, err
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	access := c.access.image()
	if known, err := c.isKnown(ctx, e, access); known || err != nil {
		return nil, err
	}
	opened, err := c.client.Open(ctx, e.spec.ref, access)
	if err != nil {
		return nil, err
	}
	got, err := c.read(ctx, opened)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && e.checked && e.good != nil && got.IsMissingPackagesOf(e.good.Snapshot) {
		pull.Drop(got.Snapshot)
		err = pull.Refused{Err: errors.New(strings.Join(got.Warnings, "; "))}
	}
	if e.refused, e.refusal = "", nil; kit.Is[pull.Refused](err) {
		e.refused, e.refusal = opened.Named.String(), err
	}
	if err != nil {
		return nil, err
	}
	return &loaded{Catalog: got, ref: opened.Repository + "@" + opened.Named.String(), at: c.clock.Now()}, nil
}

// isKnown reports whether the content of the image is already loaded. It returns an error if the image was refused and
// has not changed.
func (c *catalogs) isKnown(ctx context.Context, e *entry, access image.Access) (bool, error) {
	e.mu.Lock()
	good, refused, refusal := e.good, e.refused, e.refusal
	e.mu.Unlock()
	if good == nil && refused == "" {
		return false, nil
	}
	ref, err := image.Reference(e.spec.ref)
	if err != nil {
		return false, err
	}
	now, err := c.client.Digest(ctx, e.spec.ref, access)
	if err != nil {
		return false, err
	}
	if now.String() == refused {
		return false, refusal
	}
	return good != nil && good.ref == ref.Context().Name()+"@"+now.String(), nil
}

// read reads the catalog in an image.
func (c *catalogs) read(ctx context.Context, from *image.Image) (pull.Catalog, error) {
	got, err := pull.Read(ctx, from, pull.Options{Disk: c.disk, Lines: true, Turn: func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
		end, err := c.parses.Take(ctx, "")
		return ctx, fbc.Loader{Limits: catalog.GlobalDecoding(), Decoding: c.decoding, AnyDefault: true}, end, err
	}})
	if errors.Is(err, layer.ErrNoCatalog) {
		err = pull.Refused{Err: errors.New("the image contains no file-based catalog: it has no label " + layer.LabelConfigs)}
	}
	return got, err
}
