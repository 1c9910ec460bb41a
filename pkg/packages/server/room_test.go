package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/remit-olm/remit/pkg/packages"
)

// request returns the context of a request that a user reads until end is called.
func request(t *testing.T, name string) (ctx context.Context, end context.CancelFunc) {
	t.Helper()
	return context.WithCancel(genericrequest.WithUser(t.Context(), &user.DefaultInfo{Name: name}))
}

// take waits until there is room for a response.
func (r *room) take(ctx context.Context, bytes int64) error {
	_, err := reserve(ctx, r, func() (paged, error) { return paged{size: bytes}, nil })
	return err
}

// waits reports whether a response to a user must wait.
func (r *room) waits(t *testing.T, name string, bytes int64) bool {
	t.Helper()
	ctx, end := request(t, name)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	err := r.take(ctx, bytes)
	require.True(t, err == nil || apierrors.IsTooManyRequests(err), "%v", err)
	return err != nil
}

func TestUsersWhoReadSlowlyLeaveRoomForOthers(t *testing.T) {
	r := newRoom()
	t.Log("a large list that is read slowly blocks only other large lists")
	slow, end := request(t, "slow")
	require.NoError(t, r.take(slow, maxListBytes))
	require.True(t, r.waits(t, "slow", maxPageBytes+1))
	require.True(t, r.waits(t, "other", maxPageBytes+1))
	require.False(t, r.waits(t, "slow", maxPageBytes))
	require.False(t, r.waits(t, "other", maxPageBytes))

	t.Log("so does the next one of the same user, who can hold only one of them")
	small := maxPageBytes + int64(1)
	end()
	require.Eventually(t, func() bool { return !r.waits(t, "other", small) }, time.Minute, time.Millisecond)
	again, done := request(t, "slow")
	defer done()
	require.NoError(t, r.take(again, small))
	require.True(t, r.waits(t, "slow", small))
	require.False(t, r.waits(t, "other", small))

	t.Log("chunks of one user, however many, leave room for the chunks of others")
	for n := range maxReading/maxReadingUser - 1 {
		held, done := request(t, fmt.Sprint("slow", n))
		defer done()
		require.NoError(t, r.take(held, maxReadingUser/2))
		require.NoError(t, r.take(held, maxReadingUser/2))
		require.True(t, r.waits(t, fmt.Sprint("slow", n), maxSmall+1))
		require.False(t, r.waits(t, "other", maxPageBytes))
	}
	last, done := request(t, "last")
	require.NoError(t, r.take(last, maxReadingUser))
	require.True(t, r.waits(t, "other", maxSmall+1), "the limit for all users")
	require.False(t, r.waits(t, "other", maxSmall), "small responses need no room")
	require.False(t, r.waits(t, "last", maxSmall))
	done()
	require.Eventually(t, func() bool { return !r.waits(t, "other", maxPageBytes) }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.users) == maxReading/maxReadingUser // users without requests are forgotten
	}, time.Minute, time.Millisecond)
}

// Each of a few users who do not read their responses can take a part of the room, and all together everything.
func TestAFewUsersLeaveRoomForSmallResponses(t *testing.T) {
	r := newRoom()
	for n := range 8 {
		for range maxForwardedUser {
			ctx, end := request(t, fmt.Sprint("slow", n))
			defer end()
			go func() { _ = r.take(ctx, maxReadingUser/2) }()
		}
	}
	require.Never(t, func() bool { return r.waits(t, "other", maxSmall) }, time.Second, 100*time.Millisecond)
	require.True(t, r.waits(t, "other", maxSmall+1))
}

// A tenant can create any number of ServiceAccounts in the tenant's namespace.
func TestServiceAccountsOfANamespaceShareTheLimitsOfAUser(t *testing.T) {
	r := newRoom()
	for n := range 2 {
		ctx, end := request(t, fmt.Sprint("system:serviceaccount:a:account", n))
		defer end()
		require.NoError(t, r.take(ctx, maxReadingUser/2))
	}
	for n := range maxWatchesUser {
		ctx, end := request(t, fmt.Sprint("system:serviceaccount:a:account", n))
		defer end()
		_, err := r.watch(ctx)
		require.NoError(t, err)
	}
	for user, limited := range map[string]bool{"system:serviceaccount:a:another": true, "system:serviceaccount:b:another": false, "a": false} {
		require.Equal(t, limited, r.waits(t, user, maxSmall+1), user)
		ctx, end := request(t, user)
		defer end()
		_, err := r.watch(ctx)
		require.Equal(t, limited, apierrors.IsTooManyRequests(err), user)
	}
}

// While a user reads a large list slowly, the user's next large lists wait, and each request that waits is in flight.
func TestAUserWhoseRequestsWaitLeavesTheServerAvailable(t *testing.T) {
	s := serving(t)
	var records []packages.Record
	for n := range 12 {
		records = append(records, record("c", fmt.Sprint("p", n), strings.Repeat("x", 2<<20)))
	}
	s.put(global, "c", records...)
	s.complete()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const list, requests = "/apis/packages.operators.coreos.com/v1/namespaces/n/packagemanifests", 100
	status := func(path, user string) (int, error) {
		got, err := s.request(ctx, http.MethodGet, path, nil, http.Header{testUser: {user}, "Accept-Encoding": {"identity"}})
		if err != nil {
			return 0, err
		}
		t.Cleanup(func() { _ = got.Body.Close() }) // the response is never read
		return got.StatusCode, nil
	}
	code, err := status(list, "slow")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	codes := make(chan int, requests)
	var waiting sync.WaitGroup
	defer func() { cancel(); waiting.Wait() }()
	for range requests - 1 {
		waiting.Go(func() {
			for ctx.Err() == nil { // the server refuses connections if it has too many that it does not know yet
				if code, err := status(list, "slow"); err == nil {
					codes <- code
					return
				}
			}
		})
	}
	timeout := time.After(30 * time.Second) // a request that is not refused would wait for up to a minute
	for range requests - maxForwardedUser {
		select {
		case code := <-codes:
			require.Equal(t, http.StatusTooManyRequests, code)
		case <-timeout:
			require.Fail(t, "requests of the user wait")
		}
	}
	for _, path := range []string{list + "/p1", "/livez", "/readyz", "/apis/packages.operators.coreos.com/v1"} {
		code, err := status(path, "other")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code, path)
	}
}
