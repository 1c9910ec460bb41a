package scopedcache

import "maps"

// plan starts and stops the feeds of a scope and of narrower and wider scopes, so that as few feeds as possible serve all
// claims:
//
//   - A feed runs for each scope that is wanted and not served by a wider one.
//   - A feed that has all objects of its scope takes over from the narrower feeds, which then end.
//   - A feed that is no longer wanted continues until all narrower feeds that are wanted have their objects or are
//     refused.
//
// The caller holds the mutex.
func (k *kind) plan(scope Scope) {
	if scope == Cluster() {
		k.planCluster()
		for _, ns := range k.namespaces {
			k.planNamespace(ns)
		}
	} else if ns := k.namespaces[scope.namespace]; ns != nil {
		k.planIn(ns, scope)
	}
	if k.cluster.feed != nil && !k.cluster.wanted() {
		k.retireCluster()
	}
}

// planIn plans a scope in a namespace. A change to the claims for one object affects only that object, unless it
// changes whether the whole namespace is watched instead (see coalesce).
func (k *kind) planIn(ns *namespaceNode, scope Scope) {
	before := ns.coalesced
	if k.coalesce(ns); !scope.object || ns.coalesced != before {
		k.planNamespace(ns)
		return
	}
	covered := coversAll(k.cluster)
	if n := ns.objects[scope.name]; n != nil {
		k.planObject(ns, n, covered || ns.wanted() && ns.ready())
	}
	if !covered && !ns.wanted() && ns.feed != nil {
		k.retireNamespace(ns)
	}
	if ns.isEmpty() {
		delete(k.namespaces, ns.scope.namespace)
	}
}

// coversAll reports whether a node serves its scope and will continue to do so.
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

// planObjects starts and stops the feeds of single objects in a namespace. covered is true if a wider feed serves them, or
// will take over from the cluster's feed.
func (k *kind) planObjects(ns *namespaceNode, covered bool) {
	for _, n := range ns.objects {
		k.planObject(ns, n, covered)
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
	if !n.wanted() && n.feed == nil {
		delete(ns.objects, n.scope.name)
	}
}

// coalesce decides whether to watch a namespace instead of the claimed objects in it.
func (k *kind) coalesce(ns *namespaceNode) {
	limit := k.cache.options.CoalesceObjects
	if ns.coalesced {
		limit = max(1, limit/2) // prevents flapping at the limit
	}
	ns.coalesced = k.cache.options.CoalesceObjects > 0 && ns.scope != Cluster() && ns.wantsMoreThan(limit)
}

func (ns *namespaceNode) wantsMoreThan(limit int) bool {
	if len(ns.objects) <= limit {
		return false
	}
	count := 0
	for _, n := range ns.objects {
		if n.wanted() {
			count++
		}
		if count > limit {
			return true
		}
	}
	return false
}

// retireNamespace ends the feed of a namespace that is no longer wanted, once the feeds of the claimed objects in it can
// take over.
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
		return // another feed serves the objects, or their own feeds take over
	}
	k.succeed(ns.scope, from)
	k.abandon(ns.scope, false)
}

// retireCluster ends the feed of the cluster if it is no longer wanted, once the feeds of the claimed namespaces and
// objects can take over.
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
	k.succeed(Cluster(), from)
	for _, ns := range k.namespaces {
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

// retire ends a node's feed. It returns whether the feed served its scope, and the versions up to which the feed has
// reported events.
func (k *kind) retire(n *node) (served bool, from floors) {
	if served = n.serving(); served {
		from = n.feed.reported()
	}
	k.stop(n)
	return served, from
}

// succeed makes the feeds of parts of a scope serve these parts, if they can. The feed that they succeed has reported
// events up to the versions in from.
func (k *kind) succeed(scope Scope, from floors) {
	for name, ns := range k.namespaces {
		switch {
		case scope == Cluster():
			k.succeedAt(ns.node, from)
		case scope != Namespace(name):
			continue
		}
		for _, n := range ns.objects {
			if !ns.serving() {
				k.succeedAt(n, from)
			}
		}
	}
}

// succeedAt makes a node's feed serve its scope.
func (k *kind) succeedAt(n *node, from floors) {
	if !n.ready() || n.serving() || !n.wanted() {
		return
	}
	n.feed.floors = from.within(n.scope)
	k.serve(n.feed)
}

// takeOver makes a node's feed serve its scope, and ends the narrower feeds that served parts of it.
func (k *kind) takeOver(n *node) {
	from, ended := floors{}, 0
	end := func(narrower *node) {
		if narrower.serving() {
			maps.Copy(from, narrower.feed.reported())
			ended++
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
	n.feed.floors = from
	k.serve(n.feed)
	k.cache.counts.handovers.Add(float64(ended))
}
