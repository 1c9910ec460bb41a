package catalogsource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// maxConnections bounds the connections of one tenant namespace, maxImages its catalogs in images: each takes memory and
// goroutines, whether or not a registry answers.
const maxConnections, maxImages = 50, 50

// places bound what each namespace has of something. A CatalogSource that finds no place waits, holds nothing, and is woken once
// there is one. Whoever calls its methods holds the lock of who has them.
type places struct {
	// max is how many a namespace has, has says so, and then what comes of a CatalogSource that has waited.
	max       int
	has, then string
	// exempt is the namespace that is not bounded.
	exempt string
	wake   func(types.NamespacedName)
	of     map[string]*placesOf
}

func newPlaces(exempt string, wake func(types.NamespacedName)) *places {
	return &places{exempt: exempt, wake: wake, of: map[string]*placesOf{}}
}

// placesForConnections has those of connections to registries.
func placesForConnections(exempt string, wake func(types.NamespacedName)) *places {
	p := newPlaces(exempt, wake)
	p.max, p.has, p.then = maxConnections, fmt.Sprintf("connections to %d registries", maxConnections), "connects"
	return p
}

// placesForImages has those of catalogs in images.
func placesForImages(exempt string, wake func(types.NamespacedName)) *places {
	p := newPlaces(exempt, wake)
	p.max, p.has, p.then = maxImages, fmt.Sprintf("%d catalogs in images", maxImages), "is pulled"
	return p
}

type placesOf struct{ taken, waiting map[types.NamespacedName]bool }

// take has a CatalogSource take a place, or wait for one.
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
		return fmt.Errorf("namespace %s has %s, and no more are allowed; it %s once one of those CatalogSources is deleted", key.Namespace, p.has, p.then)
	}
	of.taken[key] = true
	delete(of.waiting, key)
	p.wakeNext(of)
	return nil
}

// leave gives back the place of a CatalogSource, or has it wait no longer.
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

// wakeNext wakes one that waits where there is a place. That one takes it, or leaves, and either wakes the next.
func (p *places) wakeNext(of *placesOf) {
	if len(of.taken) >= p.max {
		return
	}
	for key := range of.waiting {
		p.wake(key)
		return
	}
}
