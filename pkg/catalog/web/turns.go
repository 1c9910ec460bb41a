package web

import (
	"context"
	"net"
	"time"
)

// share is the part of the responses that a client address may hold.
type share struct {
	turns chan struct{}
	// users is the number of requests that have, or wait for, a turn.
	users int
}

// turn waits until another response can be written to a client. Clients that read slowly hold only their own share.
func (s *Server) turn(ctx context.Context, address string) (end func(), ok bool) {
	client, _, _ := net.SplitHostPort(address)
	own := s.enter(client)
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	if !take(ctx, own.turns, timer) {
		s.leave(client)
		return nil, false
	}
	if !take(ctx, s.turns, timer) {
		<-own.turns
		s.leave(client)
		return nil, false
	}
	return func() {
		<-s.turns
		<-own.turns
		s.leave(client)
	}, true
}

func take(ctx context.Context, turns chan<- struct{}, timer *time.Timer) bool {
	select {
	case turns <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (s *Server) enter(client string) *share {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	own := s.clients[client]
	if own == nil {
		own = &share{turns: make(chan struct{}, maxShare)}
		s.clients[client] = own
	}
	own.users++
	return own
}

// leave forgets a client without requests.
func (s *Server) leave(client string) {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if own := s.clients[client]; own.users > 1 {
		own.users--
	} else {
		delete(s.clients, client)
	}
}
