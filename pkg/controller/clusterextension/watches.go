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
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// watches is a manager.Runnable that watches objects of extensions as their identities. It has one cache for each identity
// that is in use.
type watches struct {
	clients Clients
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	trim    toolscache.TransformFunc
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
	// claims contains what is watched for each extension that uses the cache. extensions contains the extensions of each
	// watched object. watches.mu guards both.
	claims     map[string]claimed
	extensions map[string][]string

	// handling is locked while a handler is added, which may require discovery.
	handling sync.Mutex
	handled  map[schema.GroupVersionKind]bool
}

// claimed is what is watched for one extension.
type claimed struct {
	owner   scopedcache.OwnerRef
	objects []string
	// scopes identifies the scopes of the watches.
	scopes []string
}

// watched is an object, and the scope of the watch that includes it.
type watched struct {
	*unstructured.Unstructured
	scope scopedcache.Scope
}

func newWatches(clients Clients, scheme *runtime.Scheme, mapper meta.RESTMapper, proofs ownerutil.Proofs) *watches {
	return &watches{clients: clients, scheme: scheme, mapper: mapper, trim: trimmer(proofs), caches: map[string]*identityCache{}, users: map[string]string{}}
}

// enqueue has the signature of source.Func. The controller calls it with its queue, before any reconcile.
func (w *watches) enqueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// wake enqueues an extension.
func (w *watches) wake(extension string) {
	w.mu.Lock()
	queue := w.queue
	w.mu.Unlock()
	if queue != nil {
		queue.Add(kit.Request("", extension))
	}
}

// claim watches the given objects for an extension, as the identity, and stops watching the extension's other objects. It must
// not be called concurrently for the same extension.
func (w *watches) claim(ctx context.Context, ext *olmv1.ClusterExtension, identity scoped.Identity, objs []watched) error {
	if len(objs) == 0 {
		w.release(ext.Name)
		return nil
	}
	want := claimed{owner: scopedcache.OwnerRef{GVK: olmv1.GroupVersion.WithKind(olmv1.KindClusterExtension), Key: types.NamespacedName{Name: ext.Name}, UID: ext.UID}}
	for _, obj := range objs {
		want.objects = append(want.objects, keyOf(obj))
		want.scopes = append(want.scopes, obj.GroupVersionKind().String()+" "+obj.scope.String())
	}
	slices.Sort(want.objects)
	slices.Sort(want.scopes)
	c, err := w.use(ext.Name, identity)
	if err != nil || c.hasClaimed(w, ext.Name, want) {
		return err
	}
	// The mutex is not locked here, because discovery may take a long time.
	for _, obj := range objs {
		if err := c.handle(ctx, w, obj.Unstructured); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.set(ext.Name, want)
	session := c.cache.Begin(want.owner)
	for _, obj := range objs {
		session.Ensure(ctx, scopedcache.Claim{Kind: kindFor(obj.Unstructured), Scope: obj.scope})
	}
	session.Commit()
	return nil
}

// use returns the cache of an identity, which lasts at least until the extension is released or uses another one.
func (w *watches) use(extension string, identity scoped.Identity) (*identityCache, error) {
	key := identity.Username() + " " + string(identity.Account.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users[extension] != key {
		w.drop(extension)
	}
	c, err := w.open(key, identity)
	if err != nil {
		return nil, err
	}
	w.users[extension] = key
	if _, ok := c.claims[extension]; !ok {
		c.claims[extension] = claimed{}
	}
	return c, nil
}

func (c *identityCache) hasClaimed(w *watches, extension string, want claimed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := c.claims[extension]
	return is.owner == want.owner && slices.Equal(is.objects, want.objects) && slices.Equal(is.scopes, want.scopes)
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
	c.cache.Release(c.claims[extension].owner)
	c.set(extension, claimed{})
	delete(c.claims, extension)
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
		Scheme: w.scheme, Mapper: w.mapper, HTTPClient: httpClient, ReadTimeout: time.Millisecond, Transform: w.trim,
		// No rechecks are needed: a change to the identity's permissions wakes the extension, and its run determines the watches again.
		RecheckPeriod: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("create a cache for %s: %w", identity, err)
	}
	c := &identityCache{
		cache: cache, claims: map[string]claimed{}, extensions: map[string][]string{}, handled: map[schema.GroupVersionKind]bool{},
	}
	c.end = w.Launch(func(ctx context.Context) {
		if w.queue != nil {
			_ = cache.Changes(nil).Start(ctx, w.queue) // Start never returns an error
		}
		_ = cache.Start(ctx) // Start only fails if it is called twice
	})
	w.caches[key] = c
	return c, nil
}

// set records what is watched for an extension. The caller holds the mutex of watches.
func (c *identityCache) set(extension string, now claimed) {
	for _, key := range c.claims[extension].objects {
		c.extensions[key] = slices.DeleteFunc(c.extensions[key], func(name string) bool { return name == extension })
		if len(c.extensions[key]) == 0 {
			delete(c.extensions, key)
		}
	}
	c.claims[extension] = now
	for _, key := range now.objects {
		c.extensions[key] = append(c.extensions[key], extension)
	}
}

// handle adds a handler for the events of an object's kind.
func (c *identityCache) handle(ctx context.Context, w *watches, obj *unstructured.Unstructured) error {
	c.handling.Lock()
	defer c.handling.Unlock()
	gvk := obj.GroupVersionKind()
	if c.handled[gvk] {
		return nil
	}
	informer, err := c.cache.GetInformer(ctx, kindFor(obj))
	if err == nil {
		notify := func(changed any) { w.notify(c, changed, gvk) }
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, changed any) { notify(changed) }, DeleteFunc: notify,
		})
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", obj.GetKind(), err)
	}
	c.handled[gvk] = true
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

// keyOf returns a key for an object that is unique across kinds and namespaces.
func keyOf(obj client.Object) string {
	return obj.GetObjectKind().GroupVersionKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// kindFor returns an empty object in the form in which objects of this kind are cached: complete if an install waits for
// their status, and otherwise only their metadata. trimmer removes further fields from objects that no install created.
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
