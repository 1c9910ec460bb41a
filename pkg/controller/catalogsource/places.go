package catalogsource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// maxConnections bounds the connections of one tenant namespace, and maxImages its catalogs in images: each uses memory
// and goroutines, even if its registry does not respond.
const maxConnections, maxImages = 50, 50

// places limits the number of items per namespace. A CatalogSource without a place waits without using resources, and
// is woken when a place becomes available. Callers must hold the lock of the owner.
type places struct {
	// max is the number per namespace. has and then are phrases of the message: what the namespace has, and what happens next.
	max       int
	has, then string
	// exempt is the namespace without a limit.
	exempt string
	wake   func(types.NamespacedName)
	of     map[string]*placesOf
}

type placesOf struct{ taken, waiting map[types.NamespacedName]bool }

// take takes a place for a CatalogSource, or makes it wait for one.
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
		return fmt.Errorf("namespace %s already has %s, the maximum; this one %s when one of those CatalogSources is deleted", key.Namespace, p.has, p.then)
	}
	of.taken[key] = true
	delete(of.waiting, key)
	p.wakeNext(of)
	return nil
}

// leave releases the place of a CatalogSource, or stops its waiting.
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

// wakeNext wakes a waiting CatalogSource if a place is available. It takes the place or leaves, and either wakes the next one.
func (p *places) wakeNext(of *placesOf) {
	if len(of.taken) >= p.max {
		return
	}
	for key := range of.waiting {
		p.wake(key)
		return
	}
}
