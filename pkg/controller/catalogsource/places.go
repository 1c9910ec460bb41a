package catalogsource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// maxConnections bounds the connections of one tenant namespace, and maxImages and maxConfigMaps the numbers of its catalogs that are
// read from images and from ConfigMaps. Each of them uses memory and goroutines even if its registry does not respond, or requests,
// because a ConfigMap that is not watched is read at intervals.
const maxConnections, maxImages, maxConfigMaps = 50, 50, 50

// places limits the number of items per namespace. A CatalogSource without a place waits without using resources, and
// is woken when a place becomes available. Callers must hold the lock that protects the items.
type places struct {
	// max is the maximum number of items per namespace. "has" and "then" are parts of the error message: what the
	// namespace has, and what happens when a place becomes available.
	max       int
	has, then string
	// exempt is the namespace to which no limit applies.
	exempt      string
	wake        func(types.NamespacedName)
	byNamespace map[string]*namespacePlaces
}

type namespacePlaces struct{ taken, waiting map[types.NamespacedName]bool }

// take takes a place for a CatalogSource. If no place is available, it returns an error and the CatalogSource waits for
// a place.
func (p *places) take(key types.NamespacedName) error {
	if key.Namespace == p.exempt {
		return nil
	}
	own := p.byNamespace[key.Namespace]
	if own == nil {
		own = &namespacePlaces{taken: map[types.NamespacedName]bool{}, waiting: map[types.NamespacedName]bool{}}
		p.byNamespace[key.Namespace] = own
	}
	if !own.taken[key] && len(own.taken) >= p.max {
		own.waiting[key] = true
		return fmt.Errorf("namespace %s already has %s, which is the limit; this CatalogSource %s after another CatalogSource in the namespace is deleted", key.Namespace, p.has, p.then)
	}
	own.taken[key] = true
	delete(own.waiting, key)
	p.wakeNext(own)
	return nil
}

// leave releases the place of a CatalogSource or, if the CatalogSource is waiting for a place, removes it from the
// queue.
func (p *places) leave(key types.NamespacedName) {
	own := p.byNamespace[key.Namespace]
	if own == nil {
		return
	}
	delete(own.taken, key)
	delete(own.waiting, key)
	if len(own.taken)+len(own.waiting) == 0 {
		delete(p.byNamespace, key.Namespace)
	}
	p.wakeNext(own)
}

// wakeNext wakes a waiting CatalogSource if a place is available. That CatalogSource takes the place or leaves; in both
// cases, the next one is woken.
func (p *places) wakeNext(own *namespacePlaces) {
	if len(own.taken) >= p.max {
		return
	}
	for key := range own.waiting {
		p.wake(key)
		return
	}
}
