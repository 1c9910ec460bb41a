package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
)

// request returns the context of a request that a user reads until end is called.
func request(t *testing.T, name string) (ctx context.Context, end context.CancelFunc) {
	t.Helper()
	return context.WithCancel(genericrequest.WithUser(t.Context(), &user.DefaultInfo{Name: name}))
}

// refused reports whether a response of a user has to wait.
func (r *room) waits(t *testing.T, name string, bytes int64) bool {
	t.Helper()
	ctx, end := request(t, name)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
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
		require.True(t, r.waits(t, fmt.Sprint("slow", n), 1))
		require.False(t, r.waits(t, "other", maxPageBytes))
	}
	last, done := request(t, "last")
	require.NoError(t, r.take(last, maxReadingUser))
	require.True(t, r.waits(t, "other", 1), "the limit for all users")
	done()
	require.Eventually(t, func() bool { return !r.waits(t, "other", maxPageBytes) }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.users) == maxReading/maxReadingUser // users without requests are forgotten
	}, time.Minute, time.Millisecond)
}
