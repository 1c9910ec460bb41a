package resolver

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxRemembered bounds the total weight of the search results that are cached together. The weight of a result grows with the
	// number of versions in it and the length of its key.
	maxRemembered = 200_000
	// bytesPerHit is the number of bytes of a key that weigh as much as one version.
	bytesPerHit = 64
)

// searches caches the results of searches in several catalogs. A tenant determines how many catalogs a namespace has and how many
// requirements are searched in each of them, so all catalogs of a resolution have one limit, and all global catalogs have another. The
// zero value is an empty cache.
type searches struct {
	mu     sync.Mutex
	all    map[searched]hits
	weight int
	// size is the memory of the results, in bytes.
	size int64
}

// searched identifies a search. The index identifies the content of the catalog.
type searched struct {
	index *index
	key   string
}

// hits is a cached search result and the cost of finding it, which cache hits incur as well.
type hits struct {
	operators []*operator
	cost      int
}

// searchesOf returns the cache for searches in an index. Only one namespace uses the catalogs of a tenant, so their results are kept
// only for one resolution.
func (x *index) searchesOf(m *meter) *searches {
	if x.global != nil && x.isGlobal(m) {
		return x.global
	}
	return &m.searches
}

func (s *searches) get(x *index, key string) (hits, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.all[searched{x, key}]
	return known, ok
}

// add caches a result, unless it is larger than all results together may be. It returns how much more memory the cache takes, which is
// negative if other results were dropped.
func (s *searches) add(x *index, key string, found hits) (more int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	weight := 1 + len(found.operators) + len(key)/bytesPerHit
	if weight > maxRemembered {
		return 0
	}
	before := s.size
	if s.weight += weight; s.all == nil || s.weight > maxRemembered {
		s.all, s.weight, s.size = map[searched]hits{}, weight, 0
	}
	s.all[searched{x, key}] = found
	s.size += memoryOfSearch + int64(len(key)) + memoryOfHit*int64(len(found.operators))
	return s.size - before
}

// forget removes the results for a catalog whose content has changed.
func (s *searches) forget(catalog types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, func(of searched, _ hits) bool { return of.index.key == catalog })
}
