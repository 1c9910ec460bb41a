package scopedcache

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// ClaimStatus is the state of a claim.
type ClaimStatus struct {
	Claim Claim
	State State
	// ServedBy is the scope of the watch that serves the claim, if the state is Live or Backoff.
	ServedBy Scope
	// Reason explains the state unless the state is Live or Syncing.
	Reason string
	// Missing contains the missing verbs if the state is Denied.
	Missing []string
	// Since is the time at which the claim entered its state. NextTry is the time at which a refused or failed watch is
	// retried.
	Since, NextTry time.Time
}

// Status returns the state of each claim of an owner, ordered by kind and scope.
func (c *Cache) Status(owner OwnerRef) []ClaimStatus {
	c.mu.Lock()
	owned := slices.SortedFunc(maps.Keys(c.owners[owner]), ownedScope.compare)
	kinds := maps.Clone(c.kinds)
	c.mu.Unlock()
	out := make([]ClaimStatus, 0, len(owned))
	for _, o := range owned {
		if k := kinds[o.kind]; k != nil {
			out = append(out, k.status(o.scope))
		}
	}
	return out
}

func (o ownedScope) compare(other ownedScope) int {
	if by := strings.Compare(o.kind.gvk.String(), other.kind.gvk.String()); by != 0 {
		return by
	}
	return strings.Compare(o.scope.String(), other.scope.String())
}

// status returns the status of a claim for a scope.
func (k *kind) status(scope Scope) ClaimStatus {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.statusOf(scope)
}

// statusOf is like status, for callers that hold the mutex.
func (k *kind) statusOf(scope Scope) ClaimStatus {
	out := ClaimStatus{Claim: Claim{Scope: scope}, State: Syncing}
	out.Claim.Kind, _ = k.key.example(k.cache.options.Scheme) // the kind is in the scheme; otherwise, it could not have been claimed
	f := k.server(scope)
	if err := k.misplaced(f, scope); err != nil {
		out.State, out.Reason = Invalid, err.Error()
		return out
	}
	if f != nil {
		out.ServedBy = f.scope
	} else if n := k.nodeOf(scope, false); n != nil {
		f = n.feed
	}
	if f == nil {
		return out
	}
	out.State, out.Since = f.state, f.since
	if f.err != nil && f.state != Live {
		out.Reason, out.NextTry = f.err.Error(), f.next
	}
	if f.state == Denied {
		out.Missing = f.missingVerbs()
	}
	return out
}

// misplaced returns an error if a scope is not valid for the kind although a wider feed serves the scope. A feed for the scope
// itself would be Invalid.
func (k *kind) misplaced(server *feed, scope Scope) error {
	if server == nil || server.scope == scope || k.mapping == nil {
		return nil
	}
	return scope.check(k.mapping)
}

// state returns the state of a claim for a scope. The caller holds the mutex.
func (k *kind) state(scope Scope) State {
	if f := k.server(scope); f != nil {
		if k.misplaced(f, scope) != nil {
			return Invalid
		}
		return f.state
	}
	if n := k.nodeOf(scope, false); n != nil && n.feed != nil {
		return n.feed.state
	}
	return Syncing
}

// Wait waits until each claim of an owner is Live or refused (Denied, Absent or Invalid), and returns their states. If the
// context ends first, it returns the context's error. It also returns an error if the cache has stopped.
func (c *Cache) Wait(ctx context.Context, owner OwnerRef) ([]ClaimStatus, error) {
	for {
		changed, settled := c.settled(owner)
		if settled {
			return c.Status(owner), nil
		}
		select {
		case <-ctx.Done():
			return c.Status(owner), ctx.Err()
		case <-c.ended:
			return c.Status(owner), errStopped
		case <-changed:
		}
	}
}

// settled returns true if each claim of an owner is Live or refused. Otherwise, it returns a channel that is closed when the
// result may have changed.
func (c *Cache) settled(owner OwnerRef) (changed <-chan struct{}, settled bool) {
	c.mu.Lock()
	owned := slices.Collect(maps.Keys(c.owners[owner]))
	kinds := maps.Clone(c.kinds)
	c.mu.Unlock()
	for _, o := range owned {
		k := kinds[o.kind]
		if k == nil {
			continue
		}
		k.mu.RLock()
		state, changed := k.state(o.scope), k.changed
		k.mu.RUnlock()
		if state != Live && !state.refused() {
			return changed, false
		}
	}
	return nil, true
}

// synced returns false until the first lists of the cache's own claims have ended. The result is cached, because every
// read calls it.
func (k *kind) synced() bool {
	if k.wasSynced.Load() {
		return true
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	synced := true
	k.each(func(n *node) {
		for owner := range n.owners {
			if owner.GVK.Group == builtInGroup && k.state(n.scope) == Syncing {
				synced = false
			}
		}
	})
	if synced && k.running {
		k.wasSynced.Store(true)
	}
	return synced
}
