package catalogsource

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/test/env/registry"
)

const csvText = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"a.v1"}}`

func pushBundle(t *testing.T, s *registry.Server, named, text string) (ref, byDigest string) {
	t.Helper()
	made, err := registry.Bundle(fstest.MapFS{"manifests/csv.yaml": {Data: []byte(text)}, "metadata/annotations.yaml": {Data: []byte("annotations: {}")}})
	require.NoError(t, err)
	ref, digest, err := s.Push(named, made)
	require.NoError(t, err)
	return ref, ref[:strings.LastIndexByte(ref, ':')] + "@" + digest
}

// withBundle publishes a catalog with one bundle in an image. touched receives the Store's notifications.
func withBundle(t *testing.T, s *registry.Server, image string) (*world, chan types.NamespacedName) {
	t.Helper()
	ref, _ := push(t, s, "catalog:v1", goodCatalog+"image: "+image+"\n")
	w := running(t, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.bundles.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	requireReady(t, w.afterCheck(t, "cat"))
	touched := make(chan types.NamespacedName, 10)
	w.Store.Watch(func(change catalog.Change) { touched <- change.Catalog })
	return w, touched
}

func (w *world) content(t *testing.T) (*catalog.Content, error) {
	t.Helper()
	snap, ok := w.Store.Get(key("cat"))
	require.True(t, ok)
	return snap.Reader.Content(t.Context(), "a", "stable", "a.v1")
}

func awaitNotification(t *testing.T, touched chan types.NamespacedName) {
	t.Helper()
	select {
	case got := <-touched:
		require.Equal(t, key("cat"), got)
	case <-time.After(time.Minute):
		require.FailNow(t, "no notification was received")
	}
}

func TestUnpacksABundleImageOnce(t *testing.T) {
	s := registry.New(t)
	_, byDigest := pushBundle(t, s, "bundle:v1", csvText)
	w, touched := withBundle(t, s, byDigest)

	_, err := w.content(t)
	require.ErrorIs(t, err, catalog.ErrNoContent)
	require.EqualError(t, err, `bundle image "`+byDigest+`" is being unpacked`)
	awaitNotification(t, touched)
	for range 3 {
		content, err := w.content(t)
		require.NoError(t, err)
		require.Equal(t, csvText, string(content.Manifests[0]))
	}
	require.Len(t, s.Requests("GET /v2/bundle/blobs/"), 1)
	require.Len(t, s.Requests("GET /v2/bundle/manifests/"), 1)
	require.Empty(t, touched)
}

// OLM retries only in groups with the annotation operatorframework.io/bundle-unpack-min-retry-interval.
func TestRetriesAFailedUnpack(t *testing.T) {
	s := registry.New(t)
	_, byDigest := pushBundle(t, s, "bundle:v1", csvText)
	w, touched := withBundle(t, s, byDigest)
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/bundle/") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	_, err := w.content(t)
	require.Error(t, err)
	awaitNotification(t, touched)
	_, err = w.content(t)
	require.ErrorIs(t, err, catalog.ErrNoContent)
	require.ErrorContains(t, err, "could not be unpacked")
	require.ErrorContains(t, err, "404")
	var waiting *catalog.NotUnpacked
	require.ErrorAs(t, err, &waiting)
	require.Equal(t, "a.v1", waiting.Bundle)
	require.Equal(t, key("cat"), waiting.Catalog)

	s.Answer(nil)
	w.pass(t, 2*firstReload)
	awaitNotification(t, touched)
	_, err = w.content(t)
	require.NoError(t, err)
}

func TestRetriesAFailedUnpackImmediatelyAfterARelevantChange(t *testing.T) {
	s := registry.New(t)
	_, byDigest := pushBundle(t, s, "bundle:v1", csvText)
	w, touched := withBundle(t, s, byDigest)
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	_, err := w.content(t)
	require.Error(t, err)
	awaitNotification(t, touched)
	_, err = w.content(t)
	require.ErrorContains(t, err, "401")
	s.Answer(nil)
	w.retryPulls(inNamespace("remit"))
	require.Eventually(t, func() bool {
		w.clock.Step(kit.ShortestRetry / 10)
		return len(touched) > 0
	}, time.Minute, 10*time.Millisecond)
	_, err = w.content(t)
	require.NoError(t, err)
}

func TestStopsRetryingAnUnpackThatIsNotRequested(t *testing.T) {
	s := registry.New(t)
	w, touched := withBundle(t, s, s.Host+"/gone:v1")
	_, err := w.content(t)
	require.Error(t, err)
	awaitNotification(t, touched)
	w.pass(t, 2*firstReload)
	require.Eventually(t, func() bool { return !w.clock.HasWaiters() }, time.Minute, time.Millisecond)
	require.Empty(t, touched)
}

func TestDoesNotRetryAnImageThatIsNotABundle(t *testing.T) {
	s := registry.New(t)
	made, err := registry.Bundle(fstest.MapFS{"etc/passwd": {Data: []byte("x")}})
	require.NoError(t, err)
	ref, digest, err := s.Push("bundle:v1", made)
	require.NoError(t, err)
	w, touched := withBundle(t, s, strings.TrimSuffix(ref, ":v1")+"@"+digest)
	_, err = w.content(t)
	require.Error(t, err)
	awaitNotification(t, touched)
	_, err = w.content(t)
	require.ErrorContains(t, err, "the image is not a bundle")
	require.False(t, w.clock.HasWaiters())
}

// Escape suite 95: a tag is resolved once for each version of a catalog's content.
func TestAMovedTagDoesNotChangeABundle(t *testing.T) {
	s := registry.New(t)
	ref, _ := pushBundle(t, s, "bundle:v1", csvText)
	w, touched := withBundle(t, s, ref)
	_, err := w.content(t)
	require.Error(t, err)
	awaitNotification(t, touched)
	before, err := w.content(t)
	require.NoError(t, err)
	pushBundle(t, s, "bundle:v1", strings.Replace(csvText, "a.v1", "evil", 1))
	after, err := w.content(t)
	require.NoError(t, err)
	require.Equal(t, before.Digest(), after.Digest())
}
