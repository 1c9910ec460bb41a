package scopedcache

import "context"

// Session replaces all claims of an owner: Commit releases the claims that were not renewed in the session. A reconcile
// begins a session, claims or reads what it needs, and finally commits the session. The watches of renewed claims are not
// interrupted.
type Session struct {
	cache *Cache
	owner OwnerRef
	// again contains the claims that were added or renewed in the session. The cache's mutex guards it.
	again map[ownedScope]struct{}
}

// Begin starts a session for an owner. If the owner still has an open session, that session is aborted.
func (c *Cache) Begin(owner OwnerRef) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Session{cache: c, owner: owner, again: map[ownedScope]struct{}{}}
	c.sessions[owner] = s
	return s
}

// Ensure calls Cache.Ensure for the session's owner.
func (s *Session) Ensure(ctx context.Context, claims ...Claim) []ClaimStatus {
	return s.cache.Ensure(ctx, s.owner, claims...)
}

// Context returns a context for reads that add claims on behalf of the session's owner. See WithOwner.
func (s *Session) Context(ctx context.Context) context.Context { return WithOwner(ctx, s.owner) }

// Commit releases the claims that were not renewed in the session.
func (s *Session) Commit() {
	update(s.owner, s.commit())
}

// commit ends the session and returns the claims that were not renewed.
func (s *Session) commit() map[*kind][]Scope {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[s.owner] != s {
		return nil // the session was committed, aborted or replaced
	}
	delete(c.sessions, s.owner)
	return c.disown(s.owner, func(owned ownedScope) bool {
		_, again := s.again[owned]
		return !again
	})
}

// Abort ends the session and keeps all claims.
func (s *Session) Abort() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if s.cache.sessions[s.owner] == s {
		delete(s.cache.sessions, s.owner)
	}
}
