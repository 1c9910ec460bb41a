package scopedcache

import "sigs.k8s.io/controller-runtime/pkg/client"

// serve makes a feed the source of the stored objects of its scope.
func (k *kind) serve(f *feed) {
	collected := f.collected
	f.serving, f.collected = true, nil
	k.replace(f, collected, f.version, true)
	f.saw(f.version)
}

// replace updates the stored objects of a feed's scope from a list at a version. Objects for which another feed has
// reported newer events do not change. first is true for the feed's first list.
func (k *kind) replace(f *feed, list map[string]client.Object, version string, first bool) {
	stale := func(obj client.Object) bool {
		floor := f.floor(obj.GetNamespace(), obj.GetName())
		return floor != "" && older(version, floor)
	}
	for _, key := range k.objects.keysIn(f.scope) {
		obj, ok := k.objects.get(key)
		if _, listed := list[key]; ok && !listed && !stale(obj) {
			k.objects.remove(obj)
		}
	}
	for _, obj := range list {
		if !stale(obj) {
			k.objects.put(obj, first)
		}
	}
	k.objects.settleMissing(f.scope, list, version)
}

// abandon drops the objects of a scope that no feed serves anymore.
func (k *kind) abandon(scope Scope, deleted bool) {
	for _, key := range k.objects.keysIn(scope) {
		obj, ok := k.objects.get(key)
		switch {
		case !ok || k.server(scopeOf(obj)) != nil:
			continue
		case deleted:
			k.objects.remove(obj)
		default:
			k.objects.forget(key)
		}
		k.dropped(obj.GetNamespace())
	}
}

// server returns the feed that serves all objects of a scope, or nil.
func (k *kind) server(scope Scope) *feed {
	if k.cluster.serving() {
		return k.cluster.feed
	}
	ns := k.namespaces[scope.namespace]
	switch {
	case ns == nil || scope == Cluster():
		return nil
	case ns.serving():
		return ns.feed
	case scope.object:
		if n := ns.objects[scope.name]; n != nil && n.serving() {
			return n.feed
		}
	}
	return nil
}
