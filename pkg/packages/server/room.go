package server

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// maxReading bounds the bytes of records that are sent concurrently in objects and in chunks of lists, and
	// maxReadingUser bounds those for one user, so that a few users who read slowly leave room for others. The objects and
	// the response need several times as much memory.
	maxReading, maxReadingUser = 48 << 20, maxReading / 8
	// maxSmall is the size of the records up to which a response needs no room: maxTaking bounds these responses.
	maxSmall = 256 << 10
	// maxReadingLarge bounds the bytes of records that are sent concurrently in larger lists, which have their own room:
	// otherwise, a single user who reads such a list slowly would block all users.
	maxReadingLarge = maxListBytes
)

// maxTaking and maxTakingUser bound the requests that wait for room or are being answered, in total and for one user.
// maxTaking is less than maxRequests, so that health checks, discovery and the catalog program are always served. A user
// can only have a quarter of what the others leave, so that a few users cannot have all.
const maxTaking, maxTakingUser = 80, 16

// maxWatches and maxWatchesUser bound the concurrent watches, in total and for one user.
const maxWatches, maxWatchesUser = 2000, 64

// maxWatchBytes and maxWatchBytesUser bound the bytes of records in events that clients have not read yet, in total and for one
// user. Further events wait until clients have read some of these events, or until watches whose clients do not read end
// (maxStall).
const maxWatchBytes, maxWatchBytesUser = 48 << 20, 12 << 20

// room limits the memory for responses. The memory that a request takes is released when its response has been written, which
// pace bounds, or the request has failed.
type room struct {
	all, large, events *semaphore.Weighted
	// watches is the number of concurrent watches.
	watches atomic.Int32

	mu    sync.Mutex
	users map[string]*userRoom
	// taking counts the requests that have called take and have not ended.
	taking int
}

// userRoom is the part of the room that one user, as determined by userOf, can take. It exists while the user has requests.
type userRoom struct {
	*semaphore.Weighted
	// large limits the user to one large list at a time.
	large *semaphore.Weighted
	// events limits the bytes of records in events that the user's clients have not read yet.
	events   *semaphore.Weighted
	requests int
	// taking counts the requests that are not watches. The lock of the room protects it.
	taking  int
	watches atomic.Int32
}

func newRoom() *room {
	return &room{all: semaphore.NewWeighted(maxReading), large: semaphore.NewWeighted(maxReadingLarge), events: semaphore.NewWeighted(maxWatchBytes), users: map[string]*userRoom{}}
}

// take waits until there is room for a response. It refuses the request if too many others are waiting or being answered,
// because each of them is one of maxRequests.
func (r *room) take(ctx context.Context, bytes int64) error {
	own, leave, err := r.queue(ctx)
	if err != nil {
		return err
	}
	written := untilWritten(ctx)
	if bytes <= maxSmall {
		context.AfterFunc(written, leave)
		return nil
	}
	// One user sends at most one large list at a time, in addition to smaller responses.
	all, mine, share := r.all, own.Weighted, bytes
	if bytes > maxPageBytes {
		all, mine, share = r.large, own.large, 1
		bytes = min(bytes, maxReadingLarge)
	}
	if mine.Acquire(ctx, share) != nil {
		leave()
		return busy()
	}
	if all.Acquire(ctx, bytes) != nil {
		mine.Release(share)
		leave()
		return busy()
	}
	context.AfterFunc(written, func() {
		all.Release(bytes)
		mine.Release(share)
		leave()
	})
	return nil
}

// watch counts a watch until its context is done, or refuses it. hold waits until there is room for an event of the watch.
func (r *room) watch(ctx context.Context) (hold func(bytes int64) (release func(), err error), err error) {
	own, leave := r.enter(ctx)
	if users, all := own.watches.Add(1), r.watches.Add(1); users > maxWatchesUser || all > maxWatches {
		own.watches.Add(-1)
		r.watches.Add(-1)
		leave()
		return nil, apierrors.NewTooManyRequests("too many concurrent watches", 10)
	}
	context.AfterFunc(ctx, func() {
		r.watches.Add(-1)
		own.watches.Add(-1)
		leave()
	})
	return func(bytes int64) (func(), error) {
		if err := own.events.Acquire(ctx, bytes); err != nil {
			return nil, err
		}
		if err := r.events.Acquire(ctx, bytes); err != nil {
			own.events.Release(bytes)
			return nil, err
		}
		return func() {
			r.events.Release(bytes)
			own.events.Release(bytes)
		}, nil
	}, nil
}

// queue calls enter for a request that is not a watch. It refuses the request if the user, or all users together, have too many
// such requests.
func (r *room) queue(ctx context.Context) (own *userRoom, leave func(), err error) {
	own, left := r.enter(ctx)
	count := func(n int) (user, all int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		own.taking += n
		r.taking += n
		return own.taking, r.taking
	}
	leave = func() {
		count(-1)
		left()
	}
	if user, all := count(1); user > max(1, min(maxTakingUser, (maxTaking-(all-user))/4)) || all > maxTaking {
		leave()
		return nil, nil, busy()
	}
	return own, leave, nil
}

// userOf returns the key under which a request counts toward the limits of a user. All ServiceAccounts of a namespace count as
// one user, because a tenant who can create one ServiceAccount can create many.
func userOf(ctx context.Context) string {
	user, ok := genericrequest.UserFrom(ctx)
	if !ok {
		return ""
	}
	if namespace, _, err := serviceaccount.SplitUsername(user.GetName()); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return user.GetName()
}

// enter returns the room of the user who sends a request. The caller must call leave when the request ends.
func (r *room) enter(ctx context.Context) (own *userRoom, leave func()) {
	name := userOf(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	own = r.users[name]
	if own == nil {
		own = &userRoom{Weighted: semaphore.NewWeighted(maxReadingUser), large: semaphore.NewWeighted(1), events: semaphore.NewWeighted(maxWatchBytesUser)}
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
	return apierrors.NewTooManyRequests("too many concurrent requests or large responses", 1)
}
