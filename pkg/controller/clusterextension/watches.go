package clusterextension

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// watches is a manager.Runnable that watches objects of extensions as their identities, each object by itself. It has one
// cache for each identity that is in use.
type watches struct {
	clients Clients
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	kit.Background

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// caches contains the caches by identity, and users the identity of each extension.
	caches map[string]*identityCache
	users  map[string]string
}

// identityCache watches objects as one identity.
type identityCache struct {
	cache *scopedcache.Cache
	end   func()
	// claims contains the watched objects of each extension, and extensions the extensions of each object.
	claims     map[string][]string
	owners     map[string]scopedcache.OwnerRef
	extensions map[string][]string
	handled    map[schema.GroupVersionKind]bool
}

func newWatches(clients Clients, scheme *runtime.Scheme, mapper meta.RESTMapper) *watches {
	return &watches{clients: clients, scheme: scheme, mapper: mapper, caches: map[string]*identityCache{}, users: map[string]string{}}
}

// enqueue has the signature of source.Func. The controller calls it with its queue, before any reconcile.
func (w *watches) enqueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// claim watches these objects for an extension, as the identity, and no longer watches others.
func (w *watches) claim(ctx context.Context, ext *olmv1.ClusterExtension, identity scoped.Identity, objs []*unstructured.Unstructured) error {
	key := identity.Username() + " " + string(identity.Account.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users[ext.Name] != key {
		w.drop(ext.Name)
	}
	if len(objs) == 0 {
		w.drop(ext.Name)
		return nil
	}
	c, err := w.open(key, identity)
	if err != nil {
		return err
	}
	w.users[ext.Name] = key
	return c.claim(ctx, w, ext, objs)
}

// release stops watching for an extension.
func (w *watches) release(extension string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(extension)
}

func (w *watches) drop(extension string) {
	key, ok := w.users[extension]
	if !ok {
		return
	}
	delete(w.users, extension)
	c := w.caches[key]
	c.cache.Release(c.owners[extension])
	c.set(extension, scopedcache.OwnerRef{}, nil)
	if len(c.claims) == 0 {
		c.end()
		delete(w.caches, key)
	}
}

func (w *watches) open(key string, identity scoped.Identity) (*identityCache, error) {
	if c := w.caches[key]; c != nil {
		return c, nil
	}
	config, httpClient, err := w.clients.Connect(identity)
	if err != nil {
		return nil, err
	}
	cache, err := scopedcache.New(config, scopedcache.Options{
		Scheme: w.scheme, Mapper: w.mapper, HTTPClient: httpClient, ReadTimeout: time.Millisecond,
		RecheckPeriod: -1, // a change to the identity's permissions wakes the extension, which compares what it may watch
	})
	if err != nil {
		return nil, fmt.Errorf("create a cache for %s: %w", identity, err)
	}
	c := &identityCache{
		cache: cache, claims: map[string][]string{}, owners: map[string]scopedcache.OwnerRef{}, extensions: map[string][]string{},
		handled: map[schema.GroupVersionKind]bool{},
	}
	c.end = w.Launch(func(ctx context.Context) {
		if w.queue != nil {
			_ = cache.Changes(nil).Start(ctx, w.queue) // it never fails
		}
		_ = cache.Start(ctx) // it only fails if it is called twice
	})
	w.caches[key] = c
	return c, nil
}

func (c *identityCache) claim(ctx context.Context, w *watches, ext *olmv1.ClusterExtension, objs []*unstructured.Unstructured) error {
	keys := make([]string, 0, len(objs))
	for _, obj := range objs {
		keys = append(keys, keyOf(obj))
	}
	slices.Sort(keys)
	if slices.Equal(keys, c.claims[ext.Name]) {
		return nil
	}
	owner := scopedcache.OwnerRef{GVK: olmv1.GroupVersion.WithKind(olmv1.KindClusterExtension), Key: types.NamespacedName{Name: ext.Name}, UID: ext.UID}
	c.set(ext.Name, owner, keys)
	session := c.cache.Begin(owner)
	defer session.Commit()
	for _, obj := range objs {
		kind := kindFor(obj)
		if err := c.handle(ctx, w, obj, kind); err != nil {
			return err
		}
		session.Ensure(ctx, scopedcache.Claim{Kind: kind, Scope: scopedcache.Object(obj.GetNamespace(), obj.GetName())})
	}
	return nil
}

// set records which objects are watched for an extension.
func (c *identityCache) set(extension string, owner scopedcache.OwnerRef, keys []string) {
	for _, key := range c.claims[extension] {
		c.extensions[key] = slices.DeleteFunc(c.extensions[key], func(name string) bool { return name == extension })
		if len(c.extensions[key]) == 0 {
			delete(c.extensions, key)
		}
	}
	delete(c.claims, extension)
	delete(c.owners, extension)
	if len(keys) == 0 {
		return
	}
	c.claims[extension], c.owners[extension] = keys, owner
	for _, key := range keys {
		c.extensions[key] = append(c.extensions[key], extension)
	}
}

// handle adds a handler for the events of a kind.
func (c *identityCache) handle(ctx context.Context, w *watches, obj *unstructured.Unstructured, kind client.Object) error {
	if c.handled[obj.GroupVersionKind()] {
		return nil
	}
	informer, err := c.cache.GetInformer(ctx, kind)
	if err == nil {
		notify := func(changed any) { w.notify(c, changed, obj.GroupVersionKind()) }
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, changed any) { notify(changed) }, DeleteFunc: notify,
		})
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", obj.GetKind(), err)
	}
	c.handled[obj.GroupVersionKind()] = true
	return nil
}

// notify enqueues the extensions of an object.
func (w *watches) notify(c *identityCache, changed any, gvk schema.GroupVersionKind) {
	if gone, ok := changed.(toolscache.DeletedFinalStateUnknown); ok {
		changed = gone.Obj
	}
	obj, ok := changed.(client.Object)
	if !ok {
		return
	}
	w.mu.Lock()
	names, queue := slices.Clone(c.extensions[keyOf(apply.Reference(gvk, obj.GetNamespace(), obj.GetName()))]), w.queue
	w.mu.Unlock()
	for _, name := range names {
		if queue != nil {
			queue.Add(kit.Request("", name))
		}
	}
}

// get returns the cached object, or nil if it does not exist. known is false if the object is not watched, or its first
// list is not complete yet.
func (w *watches) get(ctx context.Context, extension string, obj *unstructured.Unstructured) (live client.Object, known bool) {
	w.mu.Lock()
	c := w.caches[w.users[extension]]
	isClaimed := c != nil && slices.Contains(c.extensions[keyOf(obj)], extension)
	w.mu.Unlock()
	if !isClaimed {
		return nil, false
	}
	out := kindFor(obj)
	switch err := c.cache.Get(ctx, client.ObjectKeyFromObject(obj), out); {
	case err == nil:
		return out, true
	case client.IgnoreNotFound(err) == nil:
		return nil, true
	}
	return nil, false
}

// keyOf identifies an object.
func keyOf(obj client.Object) string {
	return obj.GetObjectKind().GroupVersionKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// kindFor returns an empty object in the form in which objects of this kind are cached: complete if an install waits for
// their status, and otherwise only their metadata.
func kindFor(obj *unstructured.Unstructured) client.Object {
	if assess.IsProbed(obj) {
		out := &unstructured.Unstructured{}
		out.SetGroupVersionKind(obj.GroupVersionKind())
		return out
	}
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(obj.GroupVersionKind())
	return out
}
