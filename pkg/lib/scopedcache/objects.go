package scopedcache

import (
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// older returns true if a resource version is known to be older than another one of the same resource. Versions that
// cannot be compared, as some aggregated API servers have them, are not older.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

func keyOf(obj client.Object) string {
	return Object(obj.GetNamespace(), obj.GetName()).key()
}

// objects are the objects of a kind, whichever feeds they came from. Its callers hold the kind's mutex for each change;
// reads need no lock.
type objects struct {
	index    toolscache.Indexer
	handlers *handlers
	// deleted is called for each object that was deleted.
	deleted func(types.UID)
}

func newObjects(deleted func(types.UID)) *objects {
	index := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	return &objects{index: index, handlers: newHandlers(index), deleted: deleted}
}

func (o *objects) get(key string) (client.Object, bool) {
	obj, ok, _ := o.index.GetByKey(key) // an index in memory has no errors
	if !ok {
		return nil, false
	}
	return obj.(client.Object), true
}

// put stores an object and tells the handlers what changed.
func (o *objects) put(obj client.Object, initial bool) {
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
	o.handlers.notify(notification{current: obj, initial: initial})
}

// remove deletes an object that was deleted from the cluster.
func (o *objects) remove(obj client.Object) {
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

// forget deletes an object that the cache may or need no longer know. Handlers are not notified, because the object still exists.
func (o *objects) forget(key string) {
	if obj, ok := o.get(key); ok {
		_ = o.index.Delete(obj) // fails only if the object has no metadata
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
