package rbac

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
)

// maxLookups is the maximum number of lookups that are tracked individually for one reconcile.
const maxLookups = 1000

// Interests tracks what the last reconcile of each key looked up in RBAC, and finds the keys that a change affects.
// Callers need not declare their interests: a result from Listers depends only on its lookups (the bindings that name a
// user in a scope, and the roles that they refer to, even if these do not exist), so a change that does not affect
// these lookups does not affect the result. For keys with at most maxLookups lookups, the result is exact, unless the hashes of
// two lookups collide, which wakes a key unnecessarily but never misses one.
//
// The zero value is ready to use. Interests is safe for concurrent use, but two reconciles must not track the same key
// at the same time; a work queue guarantees this for its keys.
//
// To limit memory, at most maxLookups lookups of a key are recorded individually. A key with more lookups, such as for
// permissions in a thousand namespaces, is woken more often than necessary. Lookups are recorded as hashes, because their text
// would use most of the memory: there are tens of them for each key.
type Interests[K comparable] struct {
	mu   sync.Mutex
	seed maphash.Seed
	// interests contains, by key, the lookups of the last reconcile. waiting contains, by lookup, the keys whose last or
	// current reconcile made it, each once.
	interests map[K]*interest[K]
	waiting   map[uint64][]*interest[K]
}

// interest contains the hashes of the lookups of one key, sorted.
type interest[K comparable] struct {
	key     K
	lookups []uint64
}

// Track returns listers for one reconcile and a function to call when it ends. A lookup is recorded before it is
// answered, so the key is affected by every change that the answer does not reflect. When the reconcile ends, its
// lookups replace those of the previous one. If there were none, the key is forgotten.
func (i *Interests[K]) Track(who K, l Listers) (Listers, func()) {
	current := map[uint64]bool{}
	return l.noting(func(lookups ...string) { i.note(who, current, lookups) }), func() { i.end(who, current) }
}

func (i *Interests[K]) note(who K, current map[uint64]bool, lookups []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting == nil {
		i.seed, i.interests, i.waiting = maphash.MakeSeed(), map[K]*interest[K]{}, map[uint64][]*interest[K]{}
	}
	own := i.interestOf(who)
	for _, text := range lookups {
		lookup := maphash.String(i.seed, text)
		if !current[lookup] && len(current) >= maxLookups {
			lookup = maphash.String(i.seed, wider(text))
		}
		if current[lookup] {
			continue
		}
		current[lookup] = true
		if _, before := slices.BinarySearch(own.lookups, lookup); !before {
			i.waiting[lookup] = append(i.waiting[lookup], own)
		}
	}
}

func (i *Interests[K]) interestOf(who K) *interest[K] {
	if i.interests[who] == nil {
		i.interests[who] = &interest[K]{key: who}
	}
	return i.interests[who]
}

func (i *Interests[K]) end(who K, current map[uint64]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if own := i.interests[who]; own != nil {
		for _, lookup := range own.lookups {
			if !current[lookup] {
				i.forget(who, lookup)
			}
		}
	}
	if len(current) == 0 {
		delete(i.interests, who)
		return
	}
	i.interestOf(who).lookups = slices.Sorted(maps.Keys(current))
}

// forget removes a key, if it is there, from those that wait for the lookup. Their order does not matter.
func (i *Interests[K]) forget(who K, lookup uint64) {
	all := i.waiting[lookup]
	at := slices.IndexFunc(all, func(other *interest[K]) bool { return other.key == who })
	if at < 0 {
		return
	}
	if len(all) == 1 {
		delete(i.waiting, lookup)
		return
	}
	last := len(all) - 1
	all[at] = all[last]
	clear(all[last:])
	i.waiting[lookup] = all[:last]
}

// Concerned returns the keys whose last reconcile may have a different result after a change to a Role, ClusterRole,
// RoleBinding or ClusterRoleBinding. before is nil for a new object, and after is nil for a deleted one. The time is
// proportional to the size of the objects and the number of returned keys.
func (i *Interests[K]) Concerned(before, after any) []K {
	lookups := touched(before, after)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting == nil {
		return nil
	}
	seen := map[K]bool{}
	var out []K
	for _, lookup := range lookups {
		for _, who := range i.waiting[maphash.String(i.seed, lookup)] {
			if !seen[who.key] {
				seen[who.key] = true
				out = append(out, who.key)
			}
		}
	}
	return out
}
