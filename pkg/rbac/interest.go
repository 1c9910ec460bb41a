package rbac

import "sync"

// maxLookups is how many lookups of one reconcile are tracked individually.
const maxLookups = 1000

// Interests tracks what the last reconcile of each key looked up in RBAC, and finds the keys that a change concerns.
// It is exact without declarations by the caller: an answer of Listers depends only on what was looked up (the
// bindings that name a user in a scope, and the roles that they refer to, existing or not), so a change that leaves
// these lookups alone leaves the answer alone.
//
// The zero value is ready to use. It is safe for concurrent use, but each K may be tracked only once at a time, as
// the keys of a work queue are.
//
// A key with very many lookups, such as the permissions in a thousand namespaces, is woken more often than necessary,
// because the tracked lookups of all keys have to fit in memory.
type Interests[K comparable] struct {
	mu sync.Mutex
	// lookups has the lookups of the last reconcile by key; waiting has the keys by lookup, of the last or the current
	// reconcile.
	lookups map[K]map[string]bool
	waiting map[string]map[K]bool
}

// Track returns listers for one reconcile and a function to call when it ends. A lookup is recorded before it is
// answered, so a change that the answer does not show yet already concerns the key. When the reconcile ends, its
// lookups replace those of the previous one. A key without any lookups is forgotten.
func (i *Interests[K]) Track(who K, l Listers) (Listers, func()) {
	current := map[string]bool{}
	return l.noting(func(lookups ...string) { i.note(who, current, lookups) }), func() { i.end(who, current) }
}

func (i *Interests[K]) note(who K, current map[string]bool, lookups []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting == nil {
		i.lookups, i.waiting = map[K]map[string]bool{}, map[string]map[K]bool{}
	}
	for _, lookup := range lookups {
		if !current[lookup] && len(current) >= maxLookups {
			lookup = wider(lookup)
		}
		if current[lookup] {
			continue
		}
		current[lookup] = true
		if i.waiting[lookup] == nil {
			i.waiting[lookup] = map[K]bool{}
		}
		i.waiting[lookup][who] = true
	}
}

func (i *Interests[K]) end(who K, current map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for lookup := range i.lookups[who] {
		if current[lookup] {
			continue
		}
		delete(i.waiting[lookup], who)
		if len(i.waiting[lookup]) == 0 {
			delete(i.waiting, lookup)
		}
	}
	if len(current) == 0 {
		delete(i.lookups, who)
		return
	}
	i.lookups[who] = current
}

// Concerned returns the keys whose last reconcile may have another result after a change of a Role, ClusterRole,
// RoleBinding or ClusterRoleBinding. before is nil for a new object, after for a deleted one. The time is
// proportional to the number of returned keys.
func (i *Interests[K]) Concerned(before, after any) []K {
	lookups := touched(before, after)
	i.mu.Lock()
	defer i.mu.Unlock()
	seen := map[K]bool{}
	var out []K
	for _, lookup := range lookups {
		for who := range i.waiting[lookup] {
			if !seen[who] {
				seen[who] = true
				out = append(out, who)
			}
		}
	}
	return out
}
