package catalogsource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// maxConnections bounds the connections of one tenant namespace, and maxImages the number of its catalogs that are read
// from images. Each of them uses memory and goroutines, even if its registry does not respond.
const maxConnections, maxImages = 50, 50

// places limits the number of items per namespace. A CatalogSource without a place waits without using resources, and
// is woken when a place becomes available. Callers must hold the lock that protects the items.
type places struct {
	// max is the maximum number of items per namespace. "has" and "then" are parts of the error message: what the
	// namespace has, and what happens when a place becomes available.
	max       int
	has, then string
	// exempt is the namespace to which no limit applies.
	exempt string
	wake   func(types.NamespacedName)
	of     map[string]*placesOf
}

type placesOf struct{ taken, waiting map[types.NamespacedName]bool }

// take takes a place for a CatalogSource. If no place is available, it returns an error and the CatalogSource waits for
// a place.
func (p *places) take(key types.NamespacedName) error {
	if key.Namespace == p.exempt {
		return nil
	}
	of := p.of[key.Namespace]
	if of == nil {
		of = &placesOf{taken: map[types.NamespacedName]bool{}, waiting: map[types.NamespacedName]bool{}}
		p.of[key.Namespace] = of
	}
	if !of.taken[key] && len(of.taken) >= p.max {
		of.waiting[key] = true
		return fmt.Errorf("namespace %s already has %s, which is the limit; this CatalogSource %s after another CatalogSource in the namespace is deleted", key.Namespace, p.has, p.then)
	}
	of.taken[key] = true
	delete(of.waiting, key)
	p.wakeNext(of)
	return nil
}

// leave releases the place of a CatalogSource or, if the CatalogSource is waiting for a place, removes it from the
// queue.
func (p *places) leave(key types.NamespacedName) {
	of := p.of[key.Namespace]
	if of == nil {
		return
	}
	delete(of.taken, key)
	delete(of.waiting, key)
	if len(of.taken)+len(of.waiting) == 0 {
		delete(p.of, key.Namespace)
	}
	p.wakeNext(of)
}

// wakeNext wakes a waiting CatalogSource if a place is available. That CatalogSource takes the place or leaves; in both
// cases, the next one is woken.
func (p *places) wakeNext(of *placesOf) {
	if len(of.taken) >= p.max {
		return
	}
	for key := range of.waiting {
		p.wake(key)
		return
	}
}
