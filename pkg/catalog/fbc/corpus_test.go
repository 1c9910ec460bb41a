package fbc

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/test/env/corpus"
)

func TestLoadsCorpusCatalogs(t *testing.T) {
	fsys := os.DirFS(corpus.Dir(t, "catalogs/v4.20"))
	snap, err := Load(t.Context(), fsys)
	require.NoError(t, err)
	require.Len(t, snap.Packages, 37)

	again, err := Load(t.Context(), fsys)
	require.NoError(t, err)
	require.Equal(t, snap.Digest, again.Digest, "the digest does not depend on the order of goroutines")

	for _, p := range snap.Packages {
		for name, c := range p.Channels {
			_, err := c.Head()
			require.NoError(t, err, "package %s channel %s", p.Name, name)
		}
		for _, b := range p.Bundles {
			require.NotEmpty(t, b.Image)
			_, err := snap.Reader.Content(t.Context(), p.Name, "", b.Name)
			require.ErrorIs(t, err, catalog.ErrNoContent)
		}
	}
}

func TestRendersCorpusBundles(t *testing.T) {
	cfg, err := FromBundles(t.Context(), os.DirFS(corpus.Dir(t, "bundles")))
	require.NoError(t, err)
	require.Len(t, cfg.Packages, 49)
	require.Len(t, cfg.Bundles, 132)
	snap, err := FromConfig(cfg, nil)
	require.NoError(t, err)

	for _, p := range snap.Packages {
		for _, b := range p.Bundles {
			content, err := snap.Reader.Content(t.Context(), p.Name, "", b.Name)
			require.NoError(t, err)
			require.NotEmpty(t, content.Manifests)
			require.NotEmpty(t, b.Version)
		}
	}
	require.Len(t, snap.Packages["prometheus"].Channels["beta"].Entries, len(snap.Packages["prometheus"].Bundles))
	_, err = snap.Packages["prometheus"].Channels["beta"].Head()
	require.NoError(t, err, "a package with all of its versions has one head")
}

func BenchmarkLoad(b *testing.B) {
	b.Run("37-packages-15MB", func(b *testing.B) {
		fsys := os.DirFS(corpus.Dir(b, "catalogs/v4.20"))
		b.ReportAllocs()
		for b.Loop() {
			_, err := Load(context.Background(), fsys)
			require.NoError(b, err)
		}
	})
	b.Run("132-bundle-directories", func(b *testing.B) {
		fsys := os.DirFS(corpus.Dir(b, "bundles"))
		b.ReportAllocs()
		for b.Loop() {
			cfg, err := FromBundles(b.Context(), fsys)
			require.NoError(b, err)
			_, err = FromConfig(cfg, nil)
			require.NoError(b, err)
		}
	})
}
