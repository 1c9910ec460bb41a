package server

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// maxReading bounds the bytes of records that are sent concurrently, and maxReadingUser bounds those for one user. The
	// objects and the response need several times as much memory.
	maxReading, maxReadingUser = 128 << 20, 96 << 20
)

// Limits of concurrent watches, in total and for one user.
const maxWatches, maxWatchesUser = 2000, 64

// room limits the memory for responses. The memory that a request takes is released when the request ends.
type room struct {
	all *semaphore.Weighted
	// watches counts the watches.
	watches atomic.Int32

	mu    sync.Mutex
	users map[string]*userRoom
}

// userRoom is the part of the room that one user can take. It exists while the user has requests.
type userRoom struct {
	*semaphore.Weighted
	requests int
	watches  atomic.Int32
}

func newRoom() *room {
	return &room{all: semaphore.NewWeighted(maxReading), users: map[string]*userRoom{}}
}

// take waits until there is room for a response.
func (r *room) take(ctx context.Context, bytes int64) error {
	own, leave := r.enter(ctx)
	bytes = min(bytes, maxReadingUser)
	if own.Acquire(ctx, bytes) != nil {
		leave()
		return busy()
	}
	if r.all.Acquire(ctx, bytes) != nil {
		own.Release(bytes)
		leave()
		return busy()
	}
	context.AfterFunc(ctx, func() {
		r.all.Release(bytes)
		own.Release(bytes)
		leave()
	})
	return nil
}

// watch counts a watch until its context is done, or refuses it.
func (r *room) watch(ctx context.Context) error {
	own, leave := r.enter(ctx)
	if users, all := own.watches.Add(1), r.watches.Add(1); users > maxWatchesUser || all > maxWatches {
		own.watches.Add(-1)
		r.watches.Add(-1)
		leave()
		return apierrors.NewTooManyRequests("too many concurrent watches", 10)
	}
	context.AfterFunc(ctx, func() {
		r.watches.Add(-1)
		own.watches.Add(-1)
		leave()
	})
	return nil
}

// enter returns the room of the user who sends a request.
func (r *room) enter(ctx context.Context) (own *userRoom, leave func()) {
	name := ""
	if user, ok := genericrequest.UserFrom(ctx); ok {
		name = user.GetName()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own = r.users[name]
	if own == nil {
		own = &userRoom{Weighted: semaphore.NewWeighted(maxReadingUser)}
		r.users[name] = own
	}
	own.requests++
	return own, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if own.requests--; own.requests == 0 {
			delete(r.users, name)
		}
	}
}

func busy() error {
	return apierrors.NewTooManyRequests("too many large concurrent responses", 1)
}
