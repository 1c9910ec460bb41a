package bundleimage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/test/env/registry"
)

// The tests of the catalogsource controller cover failures and retries.

const csv = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"a.v1"}}`

// anonymous is an Access that allows registries at any address, without credentials, and never retries.
type anonymous struct{}

func (anonymous) Access(context.Context, types.NamespacedName, []string, kit.Retry) (image.Access, error) {
	return image.Access{Anywhere: true}, nil
}
func (anonymous) Wait(ctx context.Context, _ string, _ kit.Retry, _ time.Duration) (time.Duration, bool) {
	<-ctx.Done()
	return 0, false
}
func (anonymous) Forget(kit.Retry) {}

// inline is a Reader of a catalog that contains one bundle.
type inline struct{ content *catalog.Content }

func (i inline) Content(_ context.Context, _, _, bundle string) (*catalog.Content, error) {
	if bundle != "inline.v1" {
		return nil, catalog.ErrNoContent
	}
	return i.content, nil
}

func TestAddsTheContentOfBundleImages(t *testing.T) {
	var steps []string
	step := func(text string) { steps = append(steps, text) }
	var full error
	path := filepath.Join(t.TempDir(), "journal")
	records, err := journal.Open(path, clock.RealClock{})
	require.NoError(t, err)
	var recorded []bool
	isRecorded := func() bool {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.Contains(string(text), " tenant download/tenant ")
	}
	room := func(of types.NamespacedName) (take func(int64) error, release func()) {
		step("room of " + of.String())
		recorded = append(recorded, isRecorded())
		return func(n int64) error { require.Greater(t, n, int64(100)); return full }, func() { step("released") }
	}
	turn := func(ctx context.Context, namespace string) (context.Context, func(), error) {
		recorded = append(recorded, isRecorded())
		step("turn of " + namespace)
		return ctx, func() { step("ended") }, nil
	}
	s := registry.New(t)
	made, err := registry.Bundle(fstest.MapFS{"manifests/csv.yaml": {Data: []byte(csv)}})
	require.NoError(t, err)
	ref, digest, err := s.Push("bundle:v1", made)
	require.NoError(t, err)
	client, err := image.New(image.Options{AllPlain: true})
	require.NoError(t, err)
	dir := t.TempDir()
	store, err := disk.Open(dir, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	touched := make(chan catalog.Change, 10)
	images := New(Options{Client: client, Disk: store, Decoding: catalog.NewDecoding(), Access: anonymous{}, Room: room, Turn: turn, Journal: records, Touch: func(key types.NamespacedName, image string) { touched <- catalog.Change{Catalog: key, Image: image} }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- images.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	key := types.NamespacedName{Namespace: "tenant", Name: "one"}
	embedded := &catalog.Content{}
	snap := &catalog.Snapshot{Key: key, Digest: "sha256:1", Reader: inline{embedded}, Packages: map[string]*catalog.Package{"a": {Bundles: map[string]*catalog.Bundle{
		"inline.v1": {Name: "inline.v1"}, "a.v1": {Name: "a.v1", Image: strings.TrimSuffix(ref, ":v1") + "@" + digest}, "none.v1": {Name: "none.v1"},
	}}}}
	reader := images.Reader(snap, nil)
	get := func(bundle string) (*catalog.Content, error) {
		return reader.Content(t.Context(), "a", "stable", bundle)
	}
	got, err := get("inline.v1")
	require.NoError(t, err)
	require.Same(t, embedded, got)
	_, err = get("none.v1")
	require.Equal(t, catalog.ErrNoContent, err)
	_, err = reader.Content(t.Context(), "b", "stable", "a.v1")
	require.Equal(t, catalog.ErrNoContent, err)

	unpacked := func() {
		t.Helper()
		_, err := get("a.v1")
		require.ErrorContains(t, err, "is being unpacked")
		require.ErrorIs(t, err, catalog.ErrNoContent)
		require.Equal(t, catalog.Change{Catalog: key, Image: snap.Packages["a"].Bundles["a.v1"].Image}, <-touched)
		got, err := get("a.v1")
		require.NoError(t, err)
		require.Equal(t, csv, string(got.Manifests[0]))
	}
	unpacked()
	order := []string{"room of tenant/one", "turn of tenant", "ended", "released"}
	require.Equal(t, []bool{true, false}, recorded, "the download is recorded, but not the wait for a turn, which has its own record")
	require.Equal(t, order, steps, "memory is used only for what has been downloaded, and by one turn at a time")
	images.mu.Lock()
	for _, u := range images.byImage {
		u.key = "gone"
	}
	images.mu.Unlock()
	unpacked() // the content was deleted to free disk space
	images.Drop(key)
	require.Empty(t, images.byImage)
	require.Empty(t, touched)
	require.Equal(t, order, steps, "what is on disk is not read again")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "bundles")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bundles"), 0o700))
	full = errors.New("no disk space")
	_, err = get("a.v1")
	require.ErrorContains(t, err, "is being unpacked")
	<-touched
	_, err = get("a.v1")
	require.ErrorIs(t, err, full)
	require.Equal(t, append(order, order[0], order[3]), steps)
	left, err := os.ReadDir(filepath.Join(dir, "work"))
	require.NoError(t, err)
	require.Empty(t, left, "temporary files are deleted")
}
