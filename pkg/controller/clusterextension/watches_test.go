package clusterextension

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/proofs"
)

// server is an API server that does not respond to watch requests. It records their paths.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	watches []string
}

func givenServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.watches = append(s.watches, req.URL.Path+" "+req.URL.Query().Get("fieldSelector"))
		s.mu.Unlock()
		<-req.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) As(context.Context, scoped.Identity) (client.WithWatch, error) {
	return nil, errors.New("not used")
}

func (s *server) Connect(scoped.Identity) (*rest.Config, *http.Client, error) {
	return &rest.Config{Host: s.URL}, s.Client(), nil
}

func (s *server) awaitWatch(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(strings.Join(s.watches, "\n")+"\n", text)
	}, time.Minute, time.Millisecond, text)
}

// mapperFunc is a RESTMapper of which only one method is used.
type mapperFunc struct {
	meta.RESTMapper
	find func(schema.GroupKind) error
}

func (m mapperFunc) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if err := m.find(kind); err != nil {
		return nil, err
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

func givenWatches(t *testing.T, s *server, find func(schema.GroupKind) error) *watches {
	t.Helper()
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	known.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	w := newWatches(s, proofs.Scheme(), mapperFunc{known, find}, proofs.Keys())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

func single(kind, name string) watched {
	return watched{apply.Reference(corev1.SchemeGroupVersion.WithKind(kind), "ns", name), scopedcache.Object("ns", name)}
}

func TestWatchesAreRequestedAgainAfterDiscoveryFailed(t *testing.T) {
	t.Parallel()
	s, broken := givenServer(t), errors.New("discovery fails")
	fails := make(chan error, 1)
	fails <- broken
	w := givenWatches(t, s, func(schema.GroupKind) error {
		select {
		case err := <-fails:
			return err
		default:
			return nil
		}
	})
	ext, identity := extension("a"), scoped.Identity{Extension: "a"}
	objs := []watched{single("ConfigMap", "x")}
	require.ErrorIs(t, w.claim(t.Context(), ext, identity, objs), broken)
	require.NoError(t, w.claim(t.Context(), ext, identity, objs))
	s.awaitWatch(t, "/namespaces/ns/configmaps metadata.name=x")
}

func TestDiscoveryForOneExtensionDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	s := givenServer(t)
	discovering, answer := make(chan struct{}), make(chan struct{})
	w := givenWatches(t, s, func(kind schema.GroupKind) error {
		if kind.Kind == "Secret" {
			close(discovering)
			<-answer
			return errors.New("discovery fails")
		}
		return nil
	})
	claimed := make(chan error, 1)
	go func() {
		claimed <- w.claim(t.Context(), extension("a"), scoped.Identity{Extension: "a"}, []watched{single("Secret", "x")})
	}()
	<-discovering
	done := make(chan error, 1)
	go func() {
		err := w.claim(t.Context(), extension("b"), scoped.Identity{Extension: "b"}, []watched{single("ConfigMap", "y")})
		w.release("c")
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Error("the watch of another extension waits for the discovery")
	}
	close(answer)
	require.Error(t, <-claimed)
}

func TestReplacesSingleWatchesWithANamespaceWatch(t *testing.T) {
	t.Parallel()
	s := givenServer(t)
	w := givenWatches(t, s, func(schema.GroupKind) error { return nil })
	ext, identity := extension("a"), scoped.Identity{Extension: "a"}
	objs := []watched{single("ConfigMap", "x"), single("ConfigMap", "y")}
	require.NoError(t, w.claim(t.Context(), ext, identity, objs))
	s.awaitWatch(t, "metadata.name=y")
	for i := range objs {
		objs[i].scope = scopedcache.Namespace("ns")
	}
	require.NoError(t, w.claim(t.Context(), ext, identity, objs))
	s.awaitWatch(t, "/namespaces/ns/configmaps \n")
	_, known := w.get(t.Context(), "a", objs[0].Unstructured)
	require.False(t, known, "the first list is not complete")
	w.release("a")
	require.Empty(t, w.caches)
}
