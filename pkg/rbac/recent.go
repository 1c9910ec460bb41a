package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// MaxRecent is the size of what Recent keeps: the values of the permissions that are prepared for queries, which take up to 90
	// bytes each. That of one subject in one scope, which has at most MaxValues, or that of many ordinary ones.
	MaxRecent = MaxValues
	// recentSize is what an entry of Recent counts in addition to its values.
	recentSize = 100
	// maxCompared is the number of entries with which Recent compares a new one.
	maxCompared = 8
)

// Recent keeps the permissions that were looked up most recently, so that queries about the same ones do not read and prepare
// them again. They have at most MaxRecent values in total: one Role of 190,000 names takes 17 MiB when it is prepared, and a
// binding can give it to each ServiceAccount of a namespace, in each target namespace (docs/adr/0066). Thus callers with many
// queries finish those about one key before the next. The keys of one caller identify a subject and a scope.
//
// Consecutive permissions that consist of the same roles are prepared once. Recent is not safe for concurrent use.
type Recent[K comparable] struct {
	lookUp func(K) Permissions
	kept   map[K]Permissions
	// order contains the keys of kept, the oldest first, and size is what they count in total.
	order []K
	size  int
}

// NewRecent returns a Recent of the permissions that lookUp returns.
func NewRecent[K comparable](lookUp func(K) Permissions) *Recent[K] {
	return &Recent[K]{lookUp: lookUp, kept: map[K]Permissions{}}
}

// Get returns the permissions of a key.
func (r *Recent[K]) Get(key K) Permissions {
	if h, ok := r.kept[key]; ok {
		return h
	}
	h := r.lookUp(key)
	for _, other := range r.order[max(0, len(r.order)-maxCompared):] {
		if was := r.kept[other]; was.set != nil && sameRules(was.Rules, h.Rules) {
			h.set = was.set
			break
		}
	}
	r.kept[key], r.order = h, append(r.order, key)
	r.size += recentSizeOf(h)
	for r.size > MaxRecent && len(r.order) > 1 {
		oldest := r.order[0]
		r.size -= recentSizeOf(r.kept[oldest])
		delete(r.kept, oldest)
		r.order = slices.Delete(r.order, 0, 1)
	}
	return h
}

// recentSizeOf returns what permissions count. Those that share their prepared rules with others count as well, because they
// may be kept longer.
func recentSizeOf(h Permissions) int { return recentSize + CountValues(h.Rules) }

// sameRules reports whether two lists consist of the same rules in memory, which is the case if they come from the same roles
// of a cache. Equal rules of different roles may count as different.
func sameRules(a, b []rbacv1.PolicyRule) bool {
	return slices.EqualFunc(a, b, func(x, y rbacv1.PolicyRule) bool {
		return sameList(x.Verbs, y.Verbs) && sameList(x.APIGroups, y.APIGroups) && sameList(x.Resources, y.Resources) &&
			sameList(x.ResourceNames, y.ResourceNames) && sameList(x.NonResourceURLs, y.NonResourceURLs)
	})
}

func sameList(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
