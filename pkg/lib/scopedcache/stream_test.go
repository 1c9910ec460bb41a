package scopedcache_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// stuck is the body of a response whose connection does not close until the body is freed.
type stuck struct {
	io.ReadCloser
	free <-chan struct{}
}

func (s stuck) Close() error {
	<-s.free
	return s.ReadCloser.Close()
}

func TestAConnectionThatDoesNotCloseBlocksNothing(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	w := scripted(t, func(r *http.Request) *http.Response {
		response := watching(r)
		if strings.Contains(r.URL.Path, "/namespaces/x/") {
			response.Body = stuck{response.Body, free}
		}
		return response
	})
	t.Cleanup(func() { close(free) }) // before the cache stops, which waits for the connection
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
	w.claim(owner("p"), scopedcache.Live, secrets(scopedcache.Namespace("y")))
	done := make(chan error, 1)
	go func() {
		w.Release(owner("o"))
		done <- w.Get(t.Context(), client.ObjectKey{Namespace: "y", Name: "a"}, &corev1.Secret{})
	}()
	select {
	case err := <-done:
		require.True(t, apierrors.IsNotFound(err), err)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the connection blocks Release and reads")
	}
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("y")))
}

// A Recheck ends the watch, but the connection does not close, so that the watch is not resumed.
func TestAWatchThatDoesNotCloseIsNotLive(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	w := scripted(t, func(r *http.Request) *http.Response {
		response := watching(r)
		response.Body = stuck{response.Body, free}
		return response
	})
	t.Cleanup(func() { close(free) })
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
	w.Recheck("x")
	w.becomes(owner("o"), scopedcache.Namespace("x"), scopedcache.Backoff)
	_, err := w.read("x", "a")
	requireNotSynced(t, err)
}

// If a list cannot be stored, the reflector does not end its watch.
func TestAListThatTransformRefusesLeavesNoWatch(t *testing.T) {
	t.Parallel()
	w := scripted(t, func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") == "" {
			return failing(r, 500, "InternalError")
		}
		return streaming(r, func(to io.Writer) {
			_, _ = io.WriteString(to, addedSecret)
			_, _ = fmt.Fprintf(to, initialEventsEnd, "Secret")
		})
	}, func(o *scopedcache.Options) {
		o.ByKind = map[client.Object]scopedcache.KindOptions{&corev1.Secret{}: {Transform: func(any) (any, error) { return nil, errors.New("refused") }}}
	})
	w.claim(owner("o"), scopedcache.Backoff, secrets(scopedcache.Namespace("x")))
	<-time.After(2 * time.Second)
	require.LessOrEqual(t, len(w.log.open("secrets")), 1)
	w.Release(owner("o"))
	w.watches()
}
