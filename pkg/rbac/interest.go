package rbac

import (
	"slices"
	"sync"
)

// maxLookups is the maximum number of lookups that are tracked individually for one reconcile.
const maxLookups = 1000

// Interests tracks what the last reconcile of each key looked up in RBAC, and finds the keys that a change affects.
// Callers need not declare their interests: a result from Listers depends only on its lookups (the bindings that name a
// user in a scope, and the roles that they refer to, even if these do not exist), so a change that does not affect
// these lookups does not affect the result. For keys with at most maxLookups lookups, the result is exact.
//
// The zero value is ready to use. Interests is safe for concurrent use, but two reconciles must not track the same key
// at the same time; a work queue guarantees this for its keys.
//
// To limit memory, at most maxLookups lookups of a key are recorded individually. A key with more lookups, such as for
// permissions in a thousand namespaces, is woken more often than necessary.
type Interests[K comparable] struct {
	mu sync.Mutex
	// lookups contains, by key, the lookups of the last reconcile. waiting contains, by lookup, the keys whose last or
	// current reconcile made it, each once. It contains slices because most lookups have one key, for which a map needs ten
	// times the memory.
	lookups map[K]map[string]bool
	waiting map[string][]K
}

// Track returns listers for one reconcile and a function to call when it ends. A lookup is recorded before it is
// answered, so the key is affected by every change that the answer does not reflect. When the reconcile ends, its
// lookups replace those of the previous one. If there were none, the key is forgotten.
func (i *Interests[K]) Track(who K, l Listers) (Listers, func()) {
	current := map[string]bool{}
	return l.noting(func(lookups ...string) { i.note(who, current, lookups) }), func() { i.end(who, current) }
}

func (i *Interests[K]) note(who K, current map[string]bool, lookups []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting == nil {
		i.lookups, i.waiting = map[K]map[string]bool{}, map[string][]K{}
	}
	for _, lookup := range lookups {
		if !current[lookup] && len(current) >= maxLookups {
			lookup = wider(lookup)
		}
		if current[lookup] {
			continue
		}
		current[lookup] = true
		if !i.lookups[who][lookup] {
			i.waiting[lookup] = append(i.waiting[lookup], who)
		}
	}
}

func (i *Interests[K]) end(who K, current map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for lookup := range i.lookups[who] {
		if current[lookup] {
			continue
		}
		i.forget(who, lookup)
	}
	if len(current) == 0 {
		delete(i.lookups, who)
		return
	}
	i.lookups[who] = current
}

// forget removes a key, if it is there, from those that wait for the lookup. Their order does not matter.
func (i *Interests[K]) forget(who K, lookup string) {
	keys := i.waiting[lookup]
	at := slices.Index(keys, who)
	if at < 0 {
		return
	}
	if len(keys) == 1 {
		delete(i.waiting, lookup)
		return
	}
	last := len(keys) - 1
	keys[at] = keys[last]
	clear(keys[last:])
	i.waiting[lookup] = keys[:last]
}

// Concerned returns the keys whose last reconcile may have a different result after a change to a Role, ClusterRole,
// RoleBinding or ClusterRoleBinding. before is nil for a new object, and after is nil for a deleted one. The time is
// proportional to the size of the objects and the number of returned keys.
func (i *Interests[K]) Concerned(before, after any) []K {
	lookups := touched(before, after)
	i.mu.Lock()
	defer i.mu.Unlock()
	seen := map[K]bool{}
	var out []K
	for _, lookup := range lookups {
		for _, who := range i.waiting[lookup] {
			if !seen[who] {
				seen[who] = true
				out = append(out, who)
			}
		}
	}
	return out
}
