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
	// maxReading bounds the cost (store.Entry) of packages that are sent concurrently in objects and in chunks of lists, and
	// maxReadingUser bounds those for one user, so that a few users who read slowly leave room for others. Decoding and
	// encoding them one by one needs a few times the memory of one package in addition.
	maxReading, maxReadingUser = 48 << 20, maxReading / 8
	// maxSmall is the cost up to which a response needs no room: the limits for clients bound these responses.
	maxSmall = 256 << 10
	// maxReadingLarge bounds the cost of packages that are sent concurrently in larger lists, which have their own room:
	// otherwise, a single user who reads such a list slowly would block all users.
	maxReadingLarge = maxListBytes
)

// maxWatches and maxWatchesUser bound the concurrent watches, in total and for one user.
const maxWatches, maxWatchesUser = 2000, 64

// maxWatchBytes and maxWatchBytesUser bound the cost of packages in events that clients have not read yet, in total and for one
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
}

// userRoom is the part of the room that one user, as determined by userOf, can take. It exists while the user has requests.
type userRoom struct {
	*semaphore.Weighted
	// large limits the user to one large list at a time.
	large *semaphore.Weighted
	// events limits the cost of packages in events that the user's clients have not read yet.
	events *semaphore.Weighted
	// reviews limits the user's concurrent SubjectAccessReviews.
	reviews  *semaphore.Weighted
	requests int
	watches  atomic.Int32
}

func newRoom() *room {
	return &room{
		all: semaphore.NewWeighted(maxReading), large: semaphore.NewWeighted(maxReadingLarge), events: semaphore.NewWeighted(maxWatchBytes),
		users: map[string]*userRoom{},
	}
}

// sized is what a request has found in the store.
type sized interface {
	// cost returns the memory that the response needs.
	cost() int64
}

// reserve returns what find returns, when there is room for it. A request that waits references nothing that was found, because
// entries keep the catalog that they belong to on disk even if it is replaced: it finds its packages again when there is room.
func reserve[T sized](ctx context.Context, r *room, find func() (T, error)) (T, error) {
	var none T
	own, leave := r.enter(ctx)
	written := untilWritten(ctx)
	context.AfterFunc(written, leave)
	p := &place{room: r, own: own, written: written}
	for {
		found, err := find()
		if err != nil {
			return none, err
		}
		cost := found.cost()
		if p.fits(cost) {
			return found, nil
		}
		found = none
		if !p.wait(ctx, cost) {
			return none, busy()
		}
	}
}

// place is the room that one request has until its response has been written.
type place struct {
	room *room
	own  *userRoom
	// written is done when the response has been written.
	written context.Context //nolint:containedctx // a place exists only for the request that has this context
	// cost is the cost for which the request has room, and release gives it back.
	cost    int64
	release func()
}

// fits reports whether the request has room for a response, or takes the room if nothing else waits for it.
func (p *place) fits(cost int64) bool {
	if cost <= max(p.cost, maxSmall) {
		return true
	}
	p.free()
	mine, all := p.shares(cost)
	if !mine.TryAcquire(mine.n) {
		return false
	}
	if !all.TryAcquire(all.n) {
		mine.Release(mine.n)
		return false
	}
	p.hold(cost, mine, all)
	return true
}

// wait waits until there is room for a response. It returns false if the request has ended before.
func (p *place) wait(ctx context.Context, cost int64) bool {
	mine, all := p.shares(cost)
	if mine.Acquire(ctx, mine.n) != nil {
		return false
	}
	if all.Acquire(ctx, all.n) != nil {
		mine.Release(mine.n)
		return false
	}
	p.hold(cost, mine, all)
	return true
}

// share is what a response takes of a limit.
type share struct {
	*semaphore.Weighted

	n int64
}

// shares returns what a response takes of the room of its user, and of that of all users. One user sends at most one large list
// at a time, in addition to smaller responses.
func (p *place) shares(cost int64) (mine, all share) {
	if cost > maxPageBytes {
		return share{p.own.large, 1}, share{p.room.large, min(cost, maxReadingLarge)}
	}
	return share{p.own.Weighted, cost}, share{p.room.all, cost}
}

// hold records that the request has room until its response has been written.
func (p *place) hold(cost int64, mine, all share) {
	release := func() {
		all.Release(all.n)
		mine.Release(mine.n)
	}
	stop := context.AfterFunc(p.written, release)
	p.cost, p.release = cost, func() {
		if stop() {
			release()
		}
	}
}

// free gives back the room that the request has.
func (p *place) free() {
	if p.release != nil {
		p.release()
	}
	p.cost, p.release = 0, nil
}

// watch counts a watch until its context is done, and no longer as one of the client's requests, or refuses it. hold waits until
// there is room for an event of the watch.
func (r *room) watch(ctx context.Context) (hold func(bytes int64) (release func(), err error), err error) {
	own, leave := r.enter(ctx)
	if users, all := own.watches.Add(1), r.watches.Add(1); users > maxWatchesUser || all > maxWatches {
		own.watches.Add(-1)
		r.watches.Add(-1)
		leave()
		return nil, apierrors.NewTooManyRequests("too many concurrent watches", 10)
	}
	uncount(ctx)
	context.AfterFunc(ctx, func() {
		r.watches.Add(-1)
		own.watches.Add(-1)
		leave()
	})
	return func(bytes int64) (func(), error) {
		bytes = min(bytes, maxWatchBytesUser)
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

// userOf returns the userKey of the user who sends a request.
func userOf(ctx context.Context) string {
	user, ok := genericrequest.UserFrom(ctx)
	if !ok {
		return ""
	}
	return userKey(user.GetName())
}

// userKey returns the key under which the requests of a user count toward the limits of a user. All ServiceAccounts of a namespace
// count as one user, because a tenant who can create one ServiceAccount can create many.
func userKey(name string) string {
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return name
}

// enter returns the room of the user who sends a request. The caller must call leave when the request ends.
func (r *room) enter(ctx context.Context) (own *userRoom, leave func()) {
	name := userOf(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	own = r.users[name]
	if own == nil {
		own = &userRoom{
			Weighted: semaphore.NewWeighted(maxReadingUser), large: semaphore.NewWeighted(1), events: semaphore.NewWeighted(maxWatchBytesUser),
			reviews: semaphore.NewWeighted(maxReviews),
		}
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
