package packagemanifest

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxRemovals bounds the number of removed catalogs that are remembered. More cannot be sent within the time for which they are.
const maxRemovals = 2000

// removals contains the catalogs that were removed before their next version could be sent. They wait for that time even if their
// CatalogSource is recreated, because its author can do that as often as change its labels.
type removals struct {
	mu  sync.Mutex
	all map[types.NamespacedName]removal
}

// removal is the removal of a catalog from the package-server of a session. Another package-server has nothing, so that everything is
// sent to it at once.
type removal struct {
	from  *session
	until time.Time
}

// add remembers a removal, and forgets those whose time has passed.
func (r *removals) add(key types.NamespacedName, one removal) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.all, func(_ types.NamespacedName, old removal) bool { return !old.until.After(now) })
	if !one.until.After(now) || len(r.all) >= maxRemovals {
		return
	}
	if r.all == nil {
		r.all = map[types.NamespacedName]removal{}
	}
	r.all[key] = one
}

// wait returns how long a catalog that is not in a session waits.
func (r *removals) wait(s *session, key types.NamespacedName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.all[key]; ok && one.from == s {
		return time.Until(one.until)
	}
	return 0
}

// withdraw removes a catalog from package-server. Its next version waits as long as if it had not been removed.
func (r *Reconciler) withdraw(ctx context.Context, s *session, key types.NamespacedName) error {
	if !r.isGlobal(key) {
		r.removed.add(key, removal{s, r.earliest.Get(key)})
	}
	return r.remove(ctx, s, key)
}

// wait returns how long to wait before a catalog can be sent. has is whether package-server has a version of it, or has refused one.
func (r *Reconciler) wait(s *session, key types.NamespacedName, has bool) time.Duration {
	if has {
		return r.pause(key)
	}
	return r.removed.wait(s, key)
}
