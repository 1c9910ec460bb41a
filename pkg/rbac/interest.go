package rbac

import "sync"

// maxLookups is how many lookups of one look are remembered one by one.
const maxLookups = 1000

// Interests remembers what the last look of each of those that ask about RBAC rested on, and says whose
// look a change concerns. It is exact, and nobody has to say what to wait for: an answer of Listers is
// a function of what was looked up for it (the bindings that name a user in a scope, and the roles
// that they refer to, whether they exist or not), so one whose lookups a change leaves as they were
// would get the same answer again.
//
// The zero value is ready. It may be used by many goroutines, but each K looks once at a time, as the
// keys of a work queue do.
//
// One that looks up very much, such as the rights in a thousand namespaces, is woken by more than that: what is remembered of
// it, and of all others, has to fit in memory.
type Interests[K comparable] struct {
	mu sync.Mutex
	// looks has the lookups of each one's last look, waiting those whose last or present look has one.
	looks   map[K]map[string]bool
	waiting map[string]map[K]bool
}

// Track returns listers for one look, and a function to call when it is over. A lookup is remembered
// before it is answered: a change that the answer does not show yet concerns the asker already. What the
// look before this one rested on is forgotten at the end; with it goes all memory of one that asks for
// nothing, since it is finished or waits for something else.
func (i *Interests[K]) Track(who K, l Listers) (Listers, func()) {
	look := map[string]bool{}
	return l.noting(func(lookups ...string) { i.note(who, look, lookups) }), func() { i.end(who, look) }
}

func (i *Interests[K]) note(who K, look map[string]bool, lookups []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting == nil {
		i.looks, i.waiting = map[K]map[string]bool{}, map[string]map[K]bool{}
	}
	for _, lookup := range lookups {
		if !look[lookup] && len(look) >= maxLookups {
			lookup = wider(lookup)
		}
		if look[lookup] {
			continue
		}
		look[lookup] = true
		if i.waiting[lookup] == nil {
			i.waiting[lookup] = map[K]bool{}
		}
		i.waiting[lookup][who] = true
	}
}

func (i *Interests[K]) end(who K, look map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for lookup := range i.looks[who] {
		if look[lookup] {
			continue
		}
		delete(i.waiting[lookup], who)
		if len(i.waiting[lookup]) == 0 {
			delete(i.waiting, lookup)
		}
	}
	if len(look) == 0 {
		delete(i.looks, who)
		return
	}
	i.looks[who] = look
}

// Concerned returns those whose last look may come out differently after a change of a Role, ClusterRole,
// RoleBinding or ClusterRoleBinding. before is nil for a new object, after for one that is gone. It
// takes time for those that it returns, however many others there are.
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
