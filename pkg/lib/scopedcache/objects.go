package scopedcache

import (
	"maps"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// older reports whether resource version a is known to be older than b, for the same resource. If the versions cannot be
// compared, as with some aggregated API servers, it returns false.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

func scopeOf(obj client.Object) Scope { return Object(obj.GetNamespace(), obj.GetName()) }

func keyOf(obj client.Object) string { return scopeOf(obj).key() }

// objects stores the objects of a kind, regardless of which feeds they come from. Callers hold the kind's mutex for changes;
// reads need no lock.
type objects struct {
	index    toolscache.Indexer
	handlers *handlers
	// deleted is called for each object that was deleted; nil if the objects cannot own claims.
	deleted func(types.UID)
	// added is called for each object that was not stored before; nil if the objects cannot own claims.
	added func(types.UID)
	// owners returns the UIDs of all owners of claims; nil if the objects cannot own claims.
	owners func() map[types.UID]struct{}
	// dropped contains the objects that were dropped and may still exist, by key. It is used only if the objects can own
	// claims. When it has mostDropped entries, objects that own no claims are removed from it.
	dropped     map[string]dropped
	mostDropped int
}

// dropped identifies an object that was stored.
type dropped struct {
	scope   Scope
	uid     types.UID
	version string
}

// newObjects returns an empty store. The lock prevents changes to the objects.
func newObjects(lock sync.Locker) *objects {
	index := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	return &objects{index: index, handlers: newHandlers(index, lock), dropped: map[string]dropped{}, mostDropped: mostDropped}
}

func (o *objects) get(key string) (client.Object, bool) {
	obj, ok, _ := o.index.GetByKey(key) // an in-memory index returns no errors
	if !ok {
		return nil, false
	}
	return obj.(client.Object), true
}

// put stores an object and notifies the handlers of the change.
func (o *objects) put(obj client.Object, initial bool) {
	o.settle(keyOf(obj), obj.GetUID(), obj.GetResourceVersion())
	old, ok := o.get(keyOf(obj))
	if ok && old.GetUID() != obj.GetUID() {
		o.remove(old)
		ok = false
	}
	if ok && old.GetResourceVersion() == obj.GetResourceVersion() {
		return
	}
	_ = o.index.Add(obj) // fails only if the object has no metadata
	if ok {
		o.handlers.notify(notification{old: old, current: obj})
		return
	}
	if o.added != nil {
		o.added(obj.GetUID())
	}
	o.handlers.notify(notification{current: obj, initial: initial})
}

// remove drops an object that was deleted from the cluster.
func (o *objects) remove(obj client.Object) {
	o.settle(keyOf(obj), "", obj.GetResourceVersion())
	stored, ok := o.get(keyOf(obj))
	if !ok {
		return
	}
	_ = o.index.Delete(stored) // fails only if the object has no metadata
	o.handlers.notify(notification{old: obj})
	if o.deleted != nil {
		o.deleted(stored.GetUID())
	}
}

// forget drops an object that the cache is no longer allowed to read, or no longer needs. Handlers are not notified,
// because the object still exists.
func (o *objects) forget(key string) {
	obj, ok := o.get(key)
	if !ok {
		return
	}
	_ = o.index.Delete(obj) // fails only if the object has no metadata
	if o.deleted != nil {
		o.remember(key, dropped{scope: scopeOf(obj), uid: obj.GetUID(), version: obj.GetResourceVersion()})
	}
}

// remember records that an object was dropped. If too many objects are recorded, it keeps only those that own claims.
func (o *objects) remember(key string, d dropped) {
	if len(o.dropped) >= o.mostDropped {
		owners := o.owners()
		maps.DeleteFunc(o.dropped, func(_ string, d dropped) bool { _, ok := owners[d.uid]; return !ok })
		o.mostDropped = max(mostDropped, 2*len(o.dropped))
	}
	o.dropped[key] = d
}

// settle decides whether the dropped object with this key still exists. uid is the UID of the object that has the key at
// the given version, or "" if there is none. If the version is older than the dropped object, settle does nothing.
func (o *objects) settle(key string, uid types.UID, version string) {
	d, ok := o.dropped[key]
	if !ok || older(version, d.version) {
		return
	}
	delete(o.dropped, key)
	if d.uid != uid {
		o.deleted(d.uid)
	}
}

// settleMissing settles the dropped objects of a scope that a list does not contain.
func (o *objects) settleMissing(scope Scope, list map[string]client.Object, version string) {
	for key, d := range o.dropped {
		if _, listed := list[key]; !listed && scope.Covers(d.scope) {
			o.settle(key, "", version)
		}
	}
}

// keysIn returns the keys of the stored objects in a scope.
func (o *objects) keysIn(scope Scope) []string {
	switch {
	case scope.object:
		if _, ok := o.get(scope.key()); ok {
			return []string{scope.key()}
		}
		return nil
	case scope.namespace != "":
		keys, _ := o.index.IndexKeys(toolscache.NamespaceIndex, scope.namespace) // the index exists
		return keys
	}
	return o.index.ListKeys()
}
