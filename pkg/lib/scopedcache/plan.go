package scopedcache

import "sigs.k8s.io/controller-runtime/pkg/client"

// plan starts and stops the feeds of a scope, and of what it covers and what covers it, so that each claim is served by
// as few feeds as possible:
//
//   - A feed runs for each scope that is wanted and not served by a wider one.
//   - A feed that has all objects of its scope takes over from the narrower ones, which then end.
//   - A feed that is no longer wanted serves on until all narrower ones that are have their objects or were refused.
//
// The caller holds the mutex.
func (k *kind) plan(scope Scope) {
	if scope == Cluster() {
		k.planCluster()
		for _, ns := range k.namespaces {
			k.planNamespace(ns)
		}
	} else if ns := k.namespaces[scope.namespace]; ns != nil {
		k.planNamespace(ns)
	}
	if k.cluster.feed != nil && !k.cluster.wanted() {
		k.retireCluster()
	}
}

// coversAll returns true if a node serves all of its scope and continues to do so.
func coversAll(n *node) bool { return n.wanted() && n.serving() }

func (k *kind) planCluster() {
	n := k.cluster
	if !n.wanted() {
		return
	}
	k.start(n)
	if n.ready() && !n.serving() {
		k.takeOver(n)
	}
}

func (k *kind) planNamespace(ns *namespaceNode) {
	k.coalesce(ns)
	covered := coversAll(k.cluster)
	switch {
	case covered:
		k.stop(ns.node)
	case ns.wanted():
		k.start(ns.node)
		if ns.ready() && !ns.serving() && !k.cluster.serving() {
			k.takeOver(ns.node)
		}
	}
	k.planObjects(ns, covered || ns.wanted() && ns.ready())
	if !covered && !ns.wanted() && ns.feed != nil {
		k.retireNamespace(ns)
	}
	if ns.isEmpty() {
		delete(k.namespaces, ns.scope.namespace)
	}
}

func (ns *namespaceNode) isEmpty() bool {
	return !ns.wanted() && ns.feed == nil && len(ns.objects) == 0
}

// planObjects plans the objects of a namespace. They are covered also by a feed of the namespace that waits to take over
// from that of the cluster.
func (k *kind) planObjects(ns *namespaceNode, covered bool) {
	for name, n := range ns.objects {
		k.planObject(ns, n, covered)
		if !n.wanted() && n.feed == nil {
			delete(ns.objects, name)
		}
	}
}

func (k *kind) planObject(ns *namespaceNode, n *node, covered bool) {
	switch {
	case n.wanted() && !covered:
		k.start(n)
		if n.ready() && !n.serving() && !ns.serving() && !k.cluster.serving() {
			k.takeOver(n)
		}
	case n.feed != nil:
		served := n.serving()
		k.stop(n)
		if served {
			k.abandon(n.scope, false)
		}
	}
}

// coalesce decides whether a namespace is watched instead of the many objects in it that are claimed.
func (k *kind) coalesce(ns *namespaceNode) {
	limit := k.cache.options.CoalesceObjects
	if ns.coalesced {
		limit = max(1, limit/2) // so that a namespace at the limit does not change back and forth
	}
	ns.coalesced = k.cache.options.CoalesceObjects > 0 && len(ns.objects) > limit && ns.scope != Cluster()
}

// retireNamespace ends the feed of an unwanted namespace as soon as the objects that are wanted in it are served
// by their own feeds.
func (k *kind) retireNamespace(ns *namespaceNode) {
	if ns.serving() {
		for _, n := range ns.objects {
			if !n.settled() {
				return
			}
		}
	}
	served, from := k.retire(ns.node)
	if !served {
		return // another feed serves the objects, or they take over themselves
	}
	for _, n := range ns.objects {
		k.succeed(n, from)
	}
	k.abandon(ns.scope, false)
}

// retireCluster does the same for the whole cluster.
func (k *kind) retireCluster() {
	n := k.cluster
	if n.serving() {
		for _, ns := range k.namespaces {
			if !k.settledWithoutCluster(ns) {
				return
			}
		}
	}
	served, from := k.retire(n)
	if !served {
		return
	}
	for _, ns := range k.namespaces {
		k.succeed(ns.node, from)
		for _, n := range ns.objects {
			if !ns.serving() {
				k.succeed(n, from)
			}
		}
		k.planNamespace(ns)
	}
	k.abandon(Cluster(), false)
}

func (k *kind) settledWithoutCluster(ns *namespaceNode) bool {
	if !ns.settled() {
		return false
	}
	if ns.wanted() && ns.ready() {
		return true
	}
	for _, n := range ns.objects {
		if !n.settled() {
			return false
		}
	}
	return true
}

// retire ends a node's feed. It returns whether it served, and the version up to which it has reported events.
func (k *kind) retire(n *node) (served bool, from string) {
	if served = n.serving(); served {
		from = n.feed.reported()
	}
	k.stop(n)
	return served, from
}

// succeed lets a feed serve its scope, which a wider one has served up to a version.
func (k *kind) succeed(n *node, from string) {
	if !n.ready() || n.serving() || !n.wanted() {
		return
	}
	if from != "" {
		n.feed.floors = map[Scope]string{n.scope: from}
	}
	k.serve(n.feed)
}

// takeOver lets a feed serve its scope, parts of which narrower ones may have served, and ends these.
func (k *kind) takeOver(n *node) {
	floors := map[Scope]string{}
	end := func(narrower *node) {
		if narrower.serving() {
			floors[narrower.scope] = narrower.feed.reported()
		}
		k.stop(narrower)
	}
	for name, ns := range k.namespaces {
		if n.scope.object || n.scope != Cluster() && n.scope.namespace != name {
			continue
		}
		if n.scope == Cluster() {
			end(ns.node)
		}
		for _, object := range ns.objects {
			end(object)
		}
	}
	n.feed.floors = floors
	k.serve(n.feed)
	k.cache.counts.handovers.Add(float64(len(floors)))
}

// serve makes a feed the source of its scope's objects.
func (k *kind) serve(f *feed) {
	collected := f.collected
	f.serving, f.collected = true, nil
	k.replace(f, collected, f.version)
	f.saw(f.version)
}

// replace compares the stored objects of a feed's scope with a list of a version. Where another feed has reported
// newer events, what is stored stays.
func (k *kind) replace(f *feed, list map[string]client.Object, version string) {
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
			k.objects.put(obj, true)
		}
	}
}
