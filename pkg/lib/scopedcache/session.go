package scopedcache

import "context"

// Session replaces the claims of an owner as a whole: what is not claimed again until Commit is released. A reconcile
// begins one, claims or reads what it needs, and commits it at its end. Claims that stay are never interrupted.
type Session struct {
	cache *Cache
	owner OwnerRef
	// again are the claims that were made in the session; the cache's mutex guards them.
	again map[ownedScope]struct{}
}

// Begin begins a session. A session of the same owner that is still open is aborted.
func (c *Cache) Begin(owner OwnerRef) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Session{cache: c, owner: owner, again: map[ownedScope]struct{}{}}
	c.sessions[owner] = s
	return s
}

// Ensure is Cache.Ensure for the session's owner.
func (s *Session) Ensure(ctx context.Context, claims ...Claim) []ClaimStatus {
	return s.cache.Ensure(ctx, s.owner, claims...)
}

// Context returns a context whose reads claim what they read for the session's owner. See WithOwner.
func (s *Session) Context(ctx context.Context) context.Context { return WithOwner(ctx, s.owner) }

// Commit releases the claims that were not made again in the session.
func (s *Session) Commit() {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[s.owner] != s {
		return // it has ended, or another one has begun
	}
	delete(c.sessions, s.owner)
	for owned := range c.owners[s.owner] {
		if _, ok := s.again[owned]; !ok {
			c.kinds[owned.kind].release(s.owner, owned.scope)
			delete(c.owners[s.owner], owned)
		}
	}
	if len(c.owners[s.owner]) == 0 {
		delete(c.owners, s.owner)
	}
}

// Abort ends the session and keeps all claims, old and new.
func (s *Session) Abort() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if s.cache.sessions[s.owner] == s {
		delete(s.cache.sessions, s.owner)
	}
}
