package scopedcache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Cache is a controller-runtime cache.Cache that watches only what is claimed. The package documentation describes its
// guarantees.
type Cache struct {
	// Cache reads from the stores and maintains the field indexes.
	cache.Cache

	options    Options
	connection connection
	live       client.Client
	log        logr.Logger
	events     *events
	counts     *counts
	// lists limits concurrent first lists, retries limits retries of refused watches, and hinted limits retries after hints. The
	// slot of a retry is released when the retry succeeds, or after a time that depends on Options.ProbeQPS.
	lists, retries, hinted *shares

	feeds   sync.WaitGroup
	started atomic.Bool
	// ended is closed when the cache has stopped.
	ended chan struct{}
	// launch starts a goroutine and returns a function that stops it. It is nil unless the cache is running.
	launch  atomic.Pointer[func(run func(context.Context)) context.CancelFunc]
	primary map[kindKey]bool
	rbac    *rbacWatcher // nil without Options.WatchRBAC

	// keys maps Go types to kinds, so that reads do not query the scheme.
	keys sync.Map
	// current is an immutable copy of kinds, for reads.
	current atomic.Pointer[map[kindKey]*kind]

	// mu may be locked while a kind's mutex is held, but not vice versa, so that a busy kind does not delay others.
	mu    sync.Mutex
	kinds map[kindKey]*kind
	// owners contains the claims of each owner. The state of the kinds is derived from it.
	owners map[OwnerRef]map[ownedScope]struct{}
	// gone contains the UIDs of deleted owners: a reconcile that started before the deletion must not add claims for them. A
	// UID is removed if an object with it is stored again.
	gone *lru.Cache
	// sessions contains the open session of each owner.
	sessions map[OwnerRef]*Session
}

// New returns a cache that uses the identity in config. Use one cache for each identity.
func New(config *rest.Config, options Options) (*Cache, error) {
	options, err := options.withDefaults(config)
	if err != nil {
		return nil, err
	}
	if options.Scheme == nil {
		options.Scheme = clientgoscheme.Scheme
	}
	config = rest.CopyConfig(config)
	c := &Cache{
		options: options, connection: newConnection(config, options), log: log.Log.WithName("scopedcache"),
		counts: newCounts(), lists: newShares(options.Concurrency, options.limits.slot),
		retries: newShares(1, options.timeForRetries(1)), hinted: newShares(hintedAtOnce, options.timeForRetries(hintedAtOnce)),
		primary: map[kindKey]bool{}, kinds: map[kindKey]*kind{}, owners: map[OwnerRef]map[ownedScope]struct{}{}, sessions: map[OwnerRef]*Session{}, gone: lru.New(rememberedOwners),
	}
	c.events, c.ended = newEvents(c), make(chan struct{})
	for _, obj := range options.Primary {
		key, err := c.keyOf(obj)
		if err != nil {
			return nil, err
		}
		c.primary[key] = true
	}
	if c.live, err = client.New(config, client.Options{HTTPClient: options.HTTPClient, Scheme: options.Scheme, Mapper: options.Mapper}); err != nil {
		return nil, err
	}
	if c.Cache, err = c.reader(config); err != nil {
		return nil, err
	}
	if options.WatchRBAC {
		if c.rbac, err = newRBACWatcher(config, c.Recheck); err != nil {
			return nil, err
		}
	}
	for _, claim := range options.Static {
		if _, err := c.claim(builtIn("static"), claim); err != nil {
			return nil, err
		}
	}
	if options.Metrics != nil {
		if err := options.Metrics.Register((*collector)(c)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// reader returns a controller-runtime cache that reads from the stores of c. It never lists or watches.
func (c *Cache) reader(config *rest.Config) (cache.Cache, error) {
	byObject := map[client.Object]cache.ByObject{}
	for obj, options := range c.options.ByKind {
		byObject[obj] = cache.ByObject{UnsafeDisableDeepCopy: options.UnsafeDisableDeepCopy}
	}
	return cache.New(config, cache.Options{
		HTTPClient: c.options.HTTPClient, Scheme: c.options.Scheme, Mapper: c.options.Mapper, SyncPeriod: c.options.SyncPeriod, ByObject: byObject,
		NewInformer: func(_ toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, _ toolscache.Indexers) toolscache.SharedIndexInformer {
			key := kindKey{gvk: obj.GetObjectKind().GroupVersionKind(), as: representationOf(obj)}
			if gvk, err := apiutil.GVKForObject(obj, c.options.Scheme); err == nil {
				key.gvk = gvk
			}
			k := c.kind(key)
			k.attached.Store(true)
			return &informer{kind: k, resync: resync, reader: true}
		},
	})
}

// Builder returns a function for the manager's Options.NewCache. The function stores the new cache in out.
// DefaultNamespaces becomes static claims for the primary kinds. The function returns an error for options that scopedcache
// does not support.
func Builder(options Options, out **Cache) cache.NewCacheFunc {
	return func(config *rest.Config, o cache.Options) (cache.Cache, error) {
		merged, err := options.merge(o)
		if err != nil {
			return nil, err
		}
		made, err := New(config, merged)
		if err != nil {
			return nil, err
		}
		if out != nil {
			*out = made
		}
		return made, nil
	}
}

// builtInGroup is the API group of the pseudo-owners of the cache's own claims.
const builtInGroup = "scopedcache.builtin"

func builtIn(name string) OwnerRef {
	return OwnerRef{GVK: schema.GroupVersionKind{Group: builtInGroup, Kind: name}}
}

// WaitForCacheSync waits until the cache is running and the first lists of its own claims (those for primary kinds and the static
// claims) have ended. It returns false if the context ends first.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	if !c.Cache.WaitForCacheSync(ctx) {
		return false
	}
	var synced []toolscache.InformerSynced
	for _, k := range c.allKinds() {
		synced = append(synced, k.synced)
	}
	return toolscache.WaitForCacheSync(ctx.Done(), synced...)
}

// Start runs the cache until the context ends, and returns when all its goroutines have stopped. It can be called only
// once.
func (c *Cache) Start(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("the cache was already started")
	}
	c.setRunning(func(run func(context.Context)) context.CancelFunc {
		own, cancel := context.WithCancel(ctx)
		c.feeds.Go(func() { run(own) })
		return cancel
	})
	for _, k := range c.allKinds() {
		k.run()
	}
	var wait sync.WaitGroup
	wait.Go(func() { c.events.run(ctx) })
	if c.rbac != nil {
		wait.Go(func() {
			if err := c.rbac.run(ctx); err != nil && ctx.Err() == nil {
				c.log.Error(err, "Failed to watch RBAC; permissions are rechecked less often")
			}
		})
	}
	err := c.Cache.Start(ctx)
	c.setRunning(nil)
	close(c.ended)
	for _, k := range c.allKinds() {
		k.close()
	}
	c.feeds.Wait()
	for _, k := range c.allKinds() {
		k.objects.handlers.close()
	}
	wait.Wait()
	return err
}

// setRunning sets the function that starts feeds. If it is nil, no more feeds are started.
func (c *Cache) setRunning(launch func(func(context.Context)) context.CancelFunc) {
	c.mu.Lock() // a kind that is created at the same time is started here or by its first claim, but not by both
	defer c.mu.Unlock()
	if launch == nil {
		c.launch.Store(nil)
		return
	}
	c.launch.Store(&launch)
}

// NeedLeaderElection returns false: the cache also runs when the manager is not the leader.
func (c *Cache) NeedLeaderElection() bool { return false }

var _ cache.Cache = (*Cache)(nil)
