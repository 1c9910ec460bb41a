package catalogsource

import (
	"bytes"
	"os"
	"testing"
	"testing/fstest"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/env/corpus"
	"github.com/remit-olm/remit/test/env/registry"
)

// Every catalog and bundle of the corpus is served from an image and, after a restart, from disk.
func TestServesTheCorpusFromImages(t *testing.T) {
	publishedDir, bundleDir := corpus.Dir(t, "catalogs/v4.20"), corpus.Dir(t, "bundles")
	s := registry.New(t)
	published, err := registry.Catalog(os.DirFS(publishedDir))
	require.NoError(t, err)
	catalogs, _, err := s.Push("published:v1", published)
	require.NoError(t, err)
	cfg, err := fbc.FromBundles(t.Context(), os.DirFS(bundleDir))
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, declcfg.WriteJSON(*cfg, &text))
	made, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: text.Bytes()}})
	require.NoError(t, err)
	bundles, _, err := s.Push("bundles:v1", made)
	require.NoError(t, err)

	spec := func(image string) operatorsv1alpha1.CatalogSourceSpec {
		return operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: image}
	}
	w := running(t, catalogSource("published", spec(catalogs)), catalogSource("bundles", spec(bundles)), catalogSource("again", spec(bundles)))
	requireReady(t, w.afterCheck(t, "published"))
	requireReady(t, w.afterCheck(t, "bundles"))
	snap, ok := w.Store.Get(key("published"))
	require.True(t, ok)
	require.Len(t, snap.Packages, 37)
	snap, ok = w.Store.Get(key("bundles"))
	require.True(t, ok)
	require.Len(t, snap.Packages, 49)
	pulled, verified := s.Requests("GET /v2/bundles/"), len(s.Requests("HEAD /v2/bundles/manifests/"))

	requireReady(t, w.afterCheck(t, "again"))
	require.Equal(t, pulled, s.Requests("GET /v2/bundles/"), "nothing is read from the registry, because the catalog is on disk")
	require.Len(t, s.Requests("HEAD /v2/bundles/manifests/"), verified+1, "access to the image is still verified")
	again, ok := w.Store.Get(key("again"))
	require.True(t, ok)
	require.Equal(t, snap.Digest, again.Digest)
	require.Equal(t, snap.Packages, again.Packages)
	count := 0
	for _, p := range snap.Packages {
		for _, b := range p.Bundles {
			content, err := snap.Reader.Content(t.Context(), p.Name, "", b.Name)
			require.NoError(t, err)
			other, err := again.Reader.Content(t.Context(), p.Name, "", b.Name)
			require.NoError(t, err)
			require.Equal(t, content.Digest(), other.Digest())
			count++
		}
	}
	require.Equal(t, 132, count)
}
