package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// settleTime is how long changes of states are collected before owners are told, so that a permission that comes and
// goes does not wake them each time.
const settleTime = 100 * time.Millisecond

// events tells owners of changed claims, and releases the claims of owners that were deleted, in the background.
type events struct {
	cache *Cache
	wake  chan struct{}

	mu          sync.Mutex
	kinds       map[*kind]struct{}
	deleted     map[types.UID]struct{}
	subscribers map[*subscriber]struct{}
}

type subscriber struct {
	notify func(OwnerRef, ClaimStatus)
}

func newEvents(c *Cache) *events {
	return &events{cache: c, wake: make(chan struct{}, 1), kinds: map[*kind]struct{}{}, deleted: map[types.UID]struct{}{}, subscribers: map[*subscriber]struct{}{}}
}

// dirty notes that states of a kind's claims may have changed.
func (e *events) dirty(k *kind) {
	e.mu.Lock()
	e.kinds[k] = struct{}{}
	e.mu.Unlock()
	e.signal()
}

// gone notes that an object was deleted.
func (e *events) gone(uid types.UID) {
	e.mu.Lock()
	e.deleted[uid] = struct{}{}
	e.mu.Unlock()
	e.signal()
}

func (e *events) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *events) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
		timer := time.NewTimer(settleTime)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		e.flush()
	}
}

func (e *events) flush() {
	e.mu.Lock()
	kinds, deleted := e.kinds, e.deleted
	e.kinds, e.deleted = map[*kind]struct{}{}, map[types.UID]struct{}{}
	subscribers := make([]*subscriber, 0, len(e.subscribers))
	for s := range e.subscribers {
		subscribers = append(subscribers, s)
	}
	e.mu.Unlock()
	if len(deleted) > 0 {
		e.cache.releaseDeleted(deleted)
	}
	for k := range kinds {
		for owner, statuses := range k.news() {
			for _, s := range subscribers {
				for _, status := range statuses {
					s.notify(owner, status)
				}
			}
		}
	}
}

func (c *Cache) releaseDeleted(deleted map[types.UID]struct{}) {
	c.mu.Lock()
	for uid := range deleted {
		if uid != "" {
			c.gone.Add(uid, nil)
		}
	}
	var gone []OwnerRef
	for owner := range c.owners {
		if _, ok := deleted[owner.UID]; ok && owner.UID != "" {
			gone = append(gone, owner)
		}
	}
	c.mu.Unlock()
	for _, owner := range gone {
		c.Release(owner)
	}
}

// news returns the claims whose states differ from what their owners were told, and counts them as told.
func (k *kind) news() map[OwnerRef][]ClaimStatus {
	type claim struct {
		owner OwnerRef
		scope Scope
	}
	var changed []claim
	k.mu.Lock()
	k.each(func(n *node) {
		if !n.claimed() {
			return
		}
		state := k.state(n.scope)
		for owner, told := range n.owners {
			if told != state {
				n.owners[owner] = state
				changed = append(changed, claim{owner, n.scope})
			}
		}
	})
	k.mu.Unlock()
	out := map[OwnerRef][]ClaimStatus{}
	for _, c := range changed {
		out[c.owner] = append(out[c.owner], k.status(c.scope))
	}
	return out
}

// Changes is a source that enqueues requests when the state of a claim has changed and has settled, for example because a
// permission was granted or revoked. The function returns the requests; nil enqueues the owner of the claim.
func (c *Cache) Changes(requests func(OwnerRef, ClaimStatus) []reconcile.Request) source.Source {
	if requests == nil {
		requests = func(owner OwnerRef, _ ClaimStatus) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: owner.Key}}
		}
	}
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		s := &subscriber{notify: func(owner OwnerRef, status ClaimStatus) {
			if owner.GVK.Group == builtInGroup {
				return
			}
			for _, request := range requests(owner, status) {
				queue.Add(request)
			}
		}}
		c.events.subscribe(s)
		context.AfterFunc(ctx, func() { c.events.unsubscribe(s) })
		return nil
	})
}

func (e *events) subscribe(s *subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers[s] = struct{}{}
}

func (e *events) unsubscribe(s *subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.subscribers, s)
}

// Healthz returns a check that fails while a claim of the cache itself on one of the kinds is not Live: of a primary
// kind, or a static one. Without kinds, it checks all of these.
func (c *Cache) Healthz(required ...client.Object) healthz.Checker {
	return func(*http.Request) error {
		wanted := map[kindKey]bool{}
		for _, obj := range required {
			key, err := c.keyOf(obj)
			if err != nil {
				return err
			}
			wanted[key] = true
		}
		var errs []error
		for _, owner := range []OwnerRef{builtIn("primary"), builtIn("static")} {
			for _, status := range c.Status(owner) {
				key, err := c.keyOf(status.Claim.Kind)
				if err == nil && (len(wanted) == 0 || wanted[key]) && status.State != Live {
					err = fmt.Errorf("%s in %s: %s %s", key.gvk.GroupKind(), status.Claim.Scope, status.State, status.Reason)
				}
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
}

func isForbidden(err error) bool { return apierrors.IsForbidden(err) }
