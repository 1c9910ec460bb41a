package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
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

// Cache is a cache.Cache of controller-runtime whose watches exist only for claims. See the
// package's documentation for what it promises.
type Cache struct {
	// Cache reads from the stores and keeps the field indexes.
	cache.Cache

	options    Options
	connection connection
	live       client.Client
	log        logr.Logger
	events     *events
	counts     *counts
	slots      *semaphore.Weighted
	probes     *rate.Limiter
	feeds      sync.WaitGroup
	started    atomic.Bool
	// launch starts a goroutine and returns how to end it. It is nil unless the cache runs.
	launch  atomic.Pointer[func(run func(context.Context)) context.CancelFunc]
	primary map[kindKey]bool
	rbac    *rbacWatcher // nil without Options.WatchRBAC

	// keys are the kinds of Go types, so that a read need not ask the scheme.
	keys sync.Map
	// current is a copy of kinds that is never changed, for reads.
	current atomic.Pointer[map[kindKey]*kind]

	mu     sync.Mutex
	kinds  map[kindKey]*kind
	owners map[OwnerRef]map[ownedScope]struct{}
	// gone are owners that were deleted: a reconcile that began before must not claim for them.
	gone *lru.Cache
	// sessions are the open sessions.
	sessions map[OwnerRef]*Session
}

// ownedScope is a claim as an owner has it.
type ownedScope struct {
	kind  kindKey
	scope Scope
}

// New returns a cache for the identity of a configuration. Use one cache for each identity.
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
		options: options, connection: newConnection(config, options.HTTPClient, options.Scheme), log: log.Log.WithName("scopedcache"),
		counts: newCounts(), slots: semaphore.NewWeighted(int64(options.Concurrency)),
		probes:  rate.NewLimiter(rate.Limit(options.ProbeQPS), 1),
		primary: map[kindKey]bool{}, kinds: map[kindKey]*kind{}, owners: map[OwnerRef]map[ownedScope]struct{}{}, sessions: map[OwnerRef]*Session{}, gone: lru.New(rememberedOwners),
	}
	c.events = newEvents(c)
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

// reader returns controller-runtime's cache over the stores of this one. It never lists or watches.
func (c *Cache) reader(config *rest.Config) (cache.Cache, error) {
	byObject := map[client.Object]cache.ByObject{}
	for obj, options := range c.options.ByKind {
		byObject[obj] = cache.ByObject{UnsafeDisableDeepCopy: options.UnsafeDisableDeepCopy}
	}
	return cache.New(config, cache.Options{
		HTTPClient: c.options.HTTPClient, Scheme: c.options.Scheme, Mapper: c.options.Mapper, SyncPeriod: c.options.SyncPeriod, ByObject: byObject,
		NewInformer: func(_ toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			key := kindKey{gvk: obj.GetObjectKind().GroupVersionKind(), as: representationOf(obj)}
			if gvk, err := apiutil.GVKForObject(obj, c.options.Scheme); err == nil {
				key.gvk = gvk
			}
			return &informer{kind: c.kind(key), resync: resync, initial: indexers}
		},
	})
}

// Builder returns a function for the manager's Options.NewCache. It stores the cache that it makes in out.
// DefaultNamespaces becomes static claims of the primary kinds. An option that the cache does not have is an error.
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

// builtInGroup is the group of the owners of claims that belong to the cache itself.
const builtInGroup = "scopedcache.builtin"

func builtIn(name string) OwnerRef {
	return OwnerRef{GVK: schema.GroupVersionKind{Group: builtInGroup, Kind: name}}
}

func (c *Cache) keyOf(obj client.Object) (kindKey, error) {
	if obj == nil {
		return kindKey{}, errors.New("the claim has no kind")
	}
	as, goType := representationOf(obj), reflect.TypeOf(obj)
	if as == typed {
		if known, ok := c.keys.Load(goType); ok {
			return known.(kindKey), nil
		}
	}
	gvk, err := apiutil.GVKForObject(obj, c.options.Scheme)
	if err != nil {
		return kindKey{}, err
	}
	key := kindKey{gvk: gvk, as: as}
	if as == typed {
		c.keys.Store(goType, key)
	}
	return key, nil
}

// kind returns what the cache holds of a kind.
func (c *Cache) kind(key kindKey) *kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kindLocked(key)
}

func (c *Cache) kindLocked(key kindKey) *kind {
	k := c.kinds[key]
	if k == nil {
		k = newKind(c, key, c.kindOptions(key), c.primary[key])
		k.running = c.launch.Load() != nil
		c.kinds[key] = k
		c.publish()
	}
	return k
}

// publish makes a change of the kinds visible to reads. The caller holds the mutex.
func (c *Cache) publish() {
	kinds := maps.Clone(c.kinds)
	c.current.Store(&kinds)
}

func (c *Cache) kindOptions(key kindKey) KindOptions {
	for obj, options := range c.options.ByKind {
		if found, err := c.keyOf(obj); err == nil && found.gvk == key.gvk {
			return options
		}
	}
	return KindOptions{}
}

// known returns what the cache holds of a kind, or nil.
func (c *Cache) known(key kindKey) *kind {
	if kinds := c.current.Load(); kinds != nil {
		return (*kinds)[key]
	}
	return nil
}

func (c *Cache) allKinds() []*kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.kinds))
}

// claim adds a claim and returns its kind.
func (c *Cache) claim(owner OwnerRef, claim Claim) (*kind, error) {
	key, err := c.keyOf(claim.Kind)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, deleted := c.gone.Get(owner.UID); deleted {
		return nil, fmt.Errorf("the owner %s %s was deleted", owner.GVK.Kind, owner.Key)
	}
	k := c.kindLocked(key)
	owned := ownedScope{kind: key, scope: claim.Scope}
	if session := c.sessions[owner]; session != nil {
		session.again[owned] = struct{}{}
	}
	if c.owners[owner] == nil {
		c.owners[owner] = map[ownedScope]struct{}{}
	}
	c.owners[owner][owned] = struct{}{}
	k.ensure(owner, claim.Scope)
	return k, nil
}

// Ensure adds claims of an owner and returns the state of each. It never waits: watches start in the background, before
// or after the cache was started. A claim whose kind is not in the scheme is Invalid.
func (c *Cache) Ensure(_ context.Context, owner OwnerRef, claims ...Claim) []ClaimStatus {
	out := make([]ClaimStatus, 0, len(claims))
	for _, claim := range claims {
		k, err := c.claim(owner, claim)
		if err != nil {
			out = append(out, ClaimStatus{Claim: claim, State: Invalid, Reason: err.Error()})
			continue
		}
		status := k.status(claim.Scope)
		status.Claim.Kind = claim.Kind
		out = append(out, status)
	}
	return out
}

// Release drops all claims of an owner. It never waits, and may be called for an owner that has none.
func (c *Cache) Release(owner OwnerRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, owner)
	for owned := range c.owners[owner] {
		c.kinds[owned.kind].release(owner, owned.scope)
	}
	delete(c.owners, owner)
}

// ReleaseAndWait drops all claims of an owner and waits until the watches that only it needed have ended, which is
// after Options.Linger. It returns the context's error if that ends first.
func (c *Cache) ReleaseAndWait(ctx context.Context, owner OwnerRef) error {
	c.mu.Lock()
	owned := slices.Collect(maps.Keys(c.owners[owner]))
	c.mu.Unlock()
	c.Release(owner)
	for _, o := range owned {
		k := c.known(o.kind)
		if k == nil {
			continue // RemoveInformer has ended it
		}
		if err := k.waitEnded(ctx, o.scope); err != nil {
			return err
		}
	}
	return nil
}

func (k *kind) waitEnded(ctx context.Context, scope Scope) error {
	for {
		k.mu.RLock()
		n, changed := k.nodeOf(scope, false), k.changed
		over := n == nil || n.claimed() || n.feed == nil
		k.mu.RUnlock()
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Recheck lets the API server check the permissions of all watches in a namespace again now; "" for all namespaces.
func (c *Cache) Recheck(namespace string) {
	for _, k := range c.allKinds() {
		k.recheck(namespace)
	}
}

// ReportForbidden tells the cache of an error of a write. If the server has forbidden it, the permissions of the kind's
// watches in the namespace are checked again.
func (c *Cache) ReportForbidden(err error, obj client.Object, namespace string) {
	if !isForbidden(err) {
		return
	}
	if key, keyErr := c.keyOf(obj); keyErr == nil {
		if k := c.known(key); k != nil {
			k.recheck(namespace)
			k.recheckServer(Namespace(namespace))
		}
	}
}

// recheckPeriod returns the time after which a watch is requested again; 0 to leave it to the server.
func (c *Cache) recheckPeriod() time.Duration {
	switch {
	case c.options.RecheckPeriod < 0:
		return 0
	case c.options.RecheckPeriod > 0:
		return c.options.RecheckPeriod
	}
	period := time.Duration(c.counts.running.Load()) * time.Second / recheckRate
	return min(max(period, time.Minute), 5*time.Minute)
}

// GetInformer returns the informer of a kind. Its handlers receive the events of all claims, from whichever
// watch they come. For a primary kind it claims the whole cluster. It does not wait for the first list.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if err := c.claimPrimary(obj); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, obj, append(opts, cache.BlockUntilSynced(false))...)
}

// GetInformerForKind is GetInformer for a kind of the scheme.
func (c *Cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := kindKey{gvk: gvk}.example(c.options.Scheme)
	if err != nil {
		return nil, err
	}
	return c.GetInformer(ctx, obj, opts...)
}

func (c *Cache) claimPrimary(obj client.Object) error {
	key, err := c.keyOf(obj)
	if err != nil || !c.primary[key] {
		return err
	}
	_, err = c.claim(builtIn("primary"), Claim{Kind: obj, Scope: Cluster()})
	return err
}

// RemoveInformer drops all claims of a kind, with its handlers and indexes. Reads that wait for it fail.
func (c *Cache) RemoveInformer(ctx context.Context, obj client.Object) error {
	key, err := c.keyOf(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	k := c.kinds[key]
	delete(c.kinds, key)
	c.publish()
	for owner, owned := range c.owners {
		maps.DeleteFunc(owned, func(o ownedScope, _ struct{}) bool { return o.kind == key })
		if len(owned) == 0 {
			delete(c.owners, owner)
		}
	}
	c.mu.Unlock()
	if k != nil {
		k.remove()
	}
	return c.Cache.RemoveInformer(ctx, obj)
}

// Start runs the cache until the context ends, and returns after all its goroutines have ended. It can be called once.
func (c *Cache) Start(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("the cache was started before")
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
				c.log.Error(err, "Watching RBAC has failed; permissions are rechecked less often")
			}
		})
	}
	err := c.Cache.Start(ctx)
	c.setRunning(nil)
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

// setRunning lets feeds start, or no longer.
func (c *Cache) setRunning(launch func(func(context.Context)) context.CancelFunc) {
	c.mu.Lock() // a kind that is created concurrently is either started here or starts on its first claim
	defer c.mu.Unlock()
	if launch == nil {
		c.launch.Store(nil)
		return
	}
	c.launch.Store(&launch)
}

// NeedLeaderElection returns false: the cache runs also where the manager does not lead.
func (c *Cache) NeedLeaderElection() bool { return false }

var _ cache.Cache = (*Cache)(nil)
