package scopedcache

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// ownedScope identifies a claim among the claims of its owner.
type ownedScope struct {
	kind  kindKey
	scope Scope
}

// claim adds a claim and returns its kind.
func (c *Cache) claim(owner OwnerRef, claim Claim) (*kind, error) {
	key, err := c.keyOf(claim.Kind)
	if err != nil {
		return nil, err
	}
	k, err := c.own(owner, ownedScope{kind: key, scope: claim.Scope})
	if err != nil {
		return nil, err
	}
	k.update(owner, claim.Scope)
	return k, nil
}

// own records that an owner has a claim, and returns the claim's kind, which the caller must update.
func (c *Cache) own(owner OwnerRef, owned ownedScope) (*kind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, deleted := c.gone.Get(owner.UID); deleted {
		return nil, fmt.Errorf("owner %s %s was deleted", owner.GVK.Kind, owner.Key)
	}
	if session := c.sessions[owner]; session != nil {
		session.again[owned] = struct{}{}
	}
	if c.owners[owner] == nil {
		c.owners[owner] = map[ownedScope]struct{}{}
	}
	k := c.kindLocked(owned.kind)
	if _, ok := c.owners[owner][owned]; !ok {
		k.claimed++
	}
	c.owners[owner][owned] = struct{}{}
	return k, nil
}

// disown removes those of an owner's claims for which drop returns true, and returns their scopes by kind. The caller holds the
// mutex, and must release it before it updates these kinds.
func (c *Cache) disown(owner OwnerRef, drop func(ownedScope) bool) map[*kind][]Scope {
	out := map[*kind][]Scope{}
	for owned := range c.owners[owner] {
		if drop(owned) {
			k := c.kinds[owned.kind]
			k.claimed--
			delete(c.owners[owner], owned)
			out[k] = append(out[k], owned.scope)
		}
	}
	if len(c.owners[owner]) == 0 {
		delete(c.owners, owner)
	}
	return out
}

// ownerUIDs returns the UIDs of all owners of claims.
func (c *Cache) ownerUIDs() map[types.UID]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[types.UID]struct{}, len(c.owners))
	for owner := range c.owners {
		out[owner.UID] = struct{}{}
	}
	return out
}

// claims reports whether an owner has a claim. It returns false for a kind that is no longer used.
func (c *Cache) claims(owner OwnerRef, k *kind, scope Scope) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.owners[owner][ownedScope{kind: k.key, scope: scope}]
	return ok && c.kinds[k.key] == k
}

// Ensure adds claims for an owner and returns the state of each claim. It never blocks: watches start in the
// background, once the cache is running. A claim is Invalid if its kind is nil or not in the scheme.
func (c *Cache) Ensure(_ context.Context, owner OwnerRef, claims ...Claim) []ClaimStatus {
	out := make([]ClaimStatus, 0, len(claims))
	for _, claim := range claims {
		k, err := c.claim(owner, claim)
		if err != nil {
			out = append(out, ClaimStatus{Claim: claim, State: Invalid, Reason: err.Error()})
			continue
		}
		status := k.status(claim.Scope)
		status.Claim.Kind = claim.Kind
		out = append(out, status)
	}
	return out
}

// Release drops all claims of an owner. It never blocks, and may be called for an owner without claims.
func (c *Cache) Release(owner OwnerRef) {
	c.mu.Lock()
	released := c.releaseLocked(owner)
	c.mu.Unlock()
	update(owner, released)
}

func (c *Cache) releaseLocked(owner OwnerRef) map[*kind][]Scope {
	delete(c.sessions, owner)
	return c.disown(owner, func(ownedScope) bool { return true })
}

func update(owner OwnerRef, changed map[*kind][]Scope) {
	for k, scopes := range changed {
		k.update(owner, scopes...)
	}
}

// ReleaseAndWait drops all claims of an owner and waits until the watches that only this owner needed have ended, which
// takes at least Options.Linger. If the context ends first, it returns the context's error.
func (c *Cache) ReleaseAndWait(ctx context.Context, owner OwnerRef) error {
	c.mu.Lock()
	owned := slices.Collect(maps.Keys(c.owners[owner]))
	c.mu.Unlock()
	c.Release(owner)
	for _, o := range owned {
		k := c.known(o.kind)
		if k == nil {
			continue // RemoveInformer removed the kind
		}
		if err := k.waitEnded(ctx, o.scope); err != nil {
			return err
		}
	}
	return nil
}

func (k *kind) waitEnded(ctx context.Context, scope Scope) error {
	for {
		k.mu.RLock()
		n, changed := k.nodeOf(scope, false), k.changed
		over := n == nil || n.claimed() || n.feed == nil
		k.mu.RUnlock()
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
