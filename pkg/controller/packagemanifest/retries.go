package packagemanifest

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxRefusals bounds how many catalogs of one namespace are sent in vain each time that package-server has room for more.
const maxRefusals = 4

// retries decides which refused catalogs are sent again after package-server has freed room: one at a time, from each namespace in
// turn. After a catalog that is stored, the next one follows. A namespace of which maxRefusals catalogs were refused again has no more
// turns until more room is freed; then it continues with its other catalogs. The zero value is ready to use.
type retries struct {
	// waiting contains the refused catalogs by namespace, those that were refused longest ago first. order contains these namespaces,
	// that whose turn it is first.
	waiting map[string][]types.NamespacedName
	order   []string
	// freed counts how often room was freed. Since then, tried contains the catalogs that were sent again, and failed counts those of
	// each namespace that were sent in vain. failed is nil unless catalogs are being sent again.
	freed  int
	tried  map[types.NamespacedName]bool
	failed map[string]int
	// trial is the catalog that is being sent again, if any.
	trial types.NamespacedName
}

// free records that there may be room for more.
func (r *retries) free() {
	r.freed++
	r.start()
}

// start begins a round, in which each refused catalog can be sent again.
func (r *retries) start() {
	r.tried, r.failed = map[types.NamespacedName]bool{}, map[string]int{}
}

// add adds a refused catalog. freed is the counter before the catalog was sent: if it has changed, the refusal does not count, and there
// may be room now.
func (r *retries) add(key types.NamespacedName, freed int) {
	r.remove(key)
	if r.waiting == nil {
		r.waiting = map[string][]types.NamespacedName{}
	}
	if r.waiting[key.Namespace] = append(r.waiting[key.Namespace], key); !slices.Contains(r.order, key.Namespace) {
		r.order = append(r.order, key.Namespace)
	}
	if r.freed == freed {
		return
	}
	if r.failed == nil {
		r.start()
	}
	delete(r.tried, key)
	if r.trial == key {
		r.trial = types.NamespacedName{}
	}
}

// remove removes a catalog that was stored or no longer exists.
func (r *retries) remove(key types.NamespacedName) {
	left := slices.DeleteFunc(r.waiting[key.Namespace], func(other types.NamespacedName) bool { return other == key })
	if len(left) == 0 {
		delete(r.waiting, key.Namespace)
		return
	}
	r.waiting[key.Namespace] = left
}

// stored records that a catalog was stored.
func (r *retries) stored(key types.NamespacedName) {
	r.remove(key)
	if r.trial == key {
		r.trial = types.NamespacedName{}
	}
}

// next returns the catalog to send next, if any, after an attempt to send the given one, whatever its result.
func (r *retries) next(after types.NamespacedName) (types.NamespacedName, bool) {
	if r.trial == after && r.failed != nil {
		r.failed[after.Namespace]++
		r.trial = types.NamespacedName{}
	}
	if r.failed == nil || r.trial != (types.NamespacedName{}) {
		return types.NamespacedName{}, false
	}
	for range len(r.order) {
		namespace := r.order[0]
		r.order = r.order[1:]
		if len(r.waiting[namespace]) == 0 {
			continue
		}
		r.order = append(r.order, namespace)
		if first := r.waiting[namespace][0]; r.failed[namespace] < maxRefusals && !r.tried[first] {
			r.tried[first], r.trial = true, first
			r.remove(first)
			return first, true
		}
	}
	r.tried, r.failed = nil, nil
	return types.NamespacedName{}, false
}
