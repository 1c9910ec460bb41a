package scopedcache

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestUnansweredRequestsEnd(t *testing.T) {
	t.Parallel()
	hanging := roundTripper(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost", nil)
	require.NoError(t, err)
	_, err = quietTransport{RoundTripper: hanging, patience: 10 * time.Millisecond}.RoundTrip(r) //nolint:bodyclose // there is no body
	require.ErrorIs(t, err, errUnanswered)
}

// Only the beginning of the response to a watch must be received in time.
func TestWatchesMayTakeLongToRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var used *http.Request
		answering := roundTripper(func(r *http.Request) (*http.Response, error) {
			used = r
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("answer"))}, nil
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost?watch=true", nil)
		require.NoError(t, err)
		response, err := quietTransport{RoundTripper: answering, patience: 10 * time.Millisecond}.RoundTrip(r)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, used.Context().Err())
		read, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, "answer", string(read))
		require.NoError(t, response.Body.Close())
		require.Error(t, used.Context().Err(), "the context of the request is canceled")
	})
}

// If the API server starts to respond to a list and then sends no more data, the list is repeated. A watch may be
// silent.
func TestAStalledListIsRepeated(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case r.URL.Query().Get("watch") == "" && lists.Add(1) > 1:
			_, _ = io.WriteString(w, `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`)
		default:
			_, _ = io.WriteString(w, map[bool]string{true: `{"kind":`}[lists.Load() == 1])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	c, err := New(&rest.Config{Host: server.URL}, Options{Mapper: mapper, RecheckPeriod: -1, Retry: Retry{Initial: time.Millisecond, Max: time.Millisecond}})
	require.NoError(t, err)
	const patience = 2 * time.Second // shorter than the time in which the watch below must not end
	c.connection.http.Transport = quietTransport{RoundTripper: http.DefaultTransport, patience: patience}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	c.Ensure(ctx, ownerOf("o"), Claim{Kind: &corev1.Secret{}, Scope: Namespace("x")})
	state := func() State { return c.Status(ownerOf("o"))[0].State }
	require.Eventually(t, func() bool { return state() == Live }, time.Minute, 10*time.Millisecond)
	require.Never(t, func() bool { return state() != Live }, patience+time.Second, 10*time.Millisecond, "a watch may be silent")
	require.EqualValues(t, 2, lists.Load(), fmt.Sprint(lists.Load()))
	cancel()
	require.NoError(t, <-ended)
}
