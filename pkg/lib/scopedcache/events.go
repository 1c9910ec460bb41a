package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// settleTime is how long state changes are collected before owners are notified, so that owners are not woken each time
// if a permission is granted and revoked in quick succession.
const settleTime = 100 * time.Millisecond

// events notifies owners of changed claims, and releases the claims of deleted owners, in the background.
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

// dirty records that the states of a kind's claims may have changed.
func (e *events) dirty(k *kind) {
	e.mu.Lock()
	e.kinds[k] = struct{}{}
	e.mu.Unlock()
	e.signal()
}

// gone records that an object was deleted.
func (e *events) gone(uid types.UID) {
	e.mu.Lock()
	e.deleted[uid] = struct{}{}
	if uid != "" {
		e.cache.gone.Add(uid, nil)
	}
	e.mu.Unlock()
	e.signal()
}

// exists records that an object exists. The cache may have considered it deleted, because it temporarily did not match the
// label selector of the kind.
func (e *events) exists(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.deleted, uid)
	e.cache.gone.Remove(uid)
}

// takeDeleted returns the objects that have been deleted since the last call.
func (e *events) takeDeleted() map[types.UID]struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	deleted := e.deleted
	e.deleted = map[types.UID]struct{}{}
	return deleted
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
		e.flush(ctx)
	}
}

func (e *events) flush(ctx context.Context) {
	e.mu.Lock()
	kinds := e.kinds
	e.kinds = map[*kind]struct{}{}
	subscribers := make([]*subscriber, 0, len(e.subscribers))
	for s := range e.subscribers {
		subscribers = append(subscribers, s)
	}
	e.mu.Unlock()
	e.cache.releaseDeleted()
	for k := range kinds {
		for owner, statuses := range k.unreported() {
			for _, s := range subscribers {
				for _, status := range statuses {
					s.notify(owner, status)
				}
			}
		}
		e.cache.free(ctx, k)
	}
}

// releaseDeleted drops the claims of deleted owners.
func (c *Cache) releaseDeleted() {
	for owner, released := range c.takeReleased() {
		update(owner, released)
	}
}

// takeReleased ends the claims and sessions of the owners that have been deleted since the last call, and returns the claims. It
// holds the mutex until it returns, so that an owner that turns out to exist cannot add claims in the meantime.
func (c *Cache) takeReleased() map[OwnerRef]map[*kind][]Scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	deleted := c.events.takeDeleted()
	delete(deleted, "")
	if len(deleted) == 0 {
		return nil
	}
	out := map[OwnerRef]map[*kind][]Scope{}
	for owner := range c.owners {
		if _, ok := deleted[owner.UID]; ok {
			out[owner] = c.releaseLocked(owner)
		}
	}
	maps.DeleteFunc(c.sessions, func(owner OwnerRef, _ *Session) bool {
		_, ok := deleted[owner.UID]
		return ok
	})
	return out
}

// unreported returns the claims whose states have changed since their owners were last notified, and marks these states
// as reported.
func (k *kind) unreported() map[OwnerRef][]ClaimStatus {
	out := map[OwnerRef][]ClaimStatus{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.each(func(n *node) {
		if !n.claimed() {
			return
		}
		status := k.statusOf(n.scope)
		for owner, reported := range n.owners {
			if reported != status.State {
				n.owners[owner] = status.State
				out[owner] = append(out[owner], status)
			}
		}
	})
	return out
}

// Changes returns a source that enqueues requests shortly after the state of a claim has changed, for example because a
// permission was granted or revoked. The function requests maps a claim to requests; if it is nil, the owner of the
// claim is enqueued.
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

// Healthz returns a check that fails while one of the cache's own claims (those for primary kinds and the static claims) for the
// required kinds is not Live. Without arguments, it checks all of the cache's own claims.
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
