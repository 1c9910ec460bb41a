package resolver

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

const room = 240 << 10

// kept returns a plan and its encoded content.
func kept(t *testing.T) (Plan, string) {
	t.Helper()
	plan, _, _, err := ResolveSteps(t.Context(), input(), chosen(t, "ns/cat/op/stable/"))
	require.NoError(t, err)
	text, err := input().Keep(t.Context(), plan, room)
	require.NoError(t, err)
	require.NotEmpty(t, text)
	return plan, text
}

func TestComputesStepsFromKeptContent(t *testing.T) {
	plan, text := kept(t)
	contents, err := plan.Restore(text)
	require.NoError(t, err)
	in := input()
	in.Catalogs = nil
	got, err := StepsFrom(t.Context(), in, plan, contents)
	require.NoError(t, err)
	want, _, err := StepsOf(t.Context(), input(), plan)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// pack encodes arbitrary data the way Keep encodes content.
func pack(t *testing.T, data string) string {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(encoder.EncodeAll([]byte(data), nil))
}

func TestRefusesForgedContent(t *testing.T) {
	plan, text := kept(t)
	for name, forged := range map[string]string{
		"another bundle":          pack(t, "[[2]]\n{}"),
		"no bundle":               pack(t, "[]\n"),
		"an additional bundle":    pack(t, "[[2],[2]]\n{}{}"),
		"lengths beyond the text": pack(t, "[[9]]\n{}"),
		"a negative length":       pack(t, "[[-1]]\n{}"),
		"invalid lengths":         pack(t, "{}\n"),
		"no lengths":              pack(t, ""),
		"very many lengths":       pack(t, "[["+strings.Repeat("0,", maxLengths)+"0]]\n"),
		"a decompression bomb":    pack(t, "[[1]]\n"+strings.Repeat("a", maxContent+maxLengths)),
		"cut":                     text[:len(text)/8*4],
		"not compressed":          base64.StdEncoding.EncodeToString([]byte("[[2]]\n{}")),
		"not text":                "\x00",
	} {
		_, err := plan.Restore(forged)
		require.ErrorIs(t, err, ErrForged, name)
	}
	_, err := plan.Restore("")
	require.ErrorIs(t, err, ErrNotKept)
	_, err = StepsFrom(t.Context(), input(), plan, []*catalog.Content{{Manifests: [][]byte{[]byte(csvText("op.v2") + " ")}}})
	require.ErrorIs(t, err, ErrForged)
	_, err = StepsFrom(t.Context(), input(), plan, nil)
	require.ErrorIs(t, err, ErrNotKept)
}

func TestDoesNotKeepTooLargeContent(t *testing.T) {
	plan, text := kept(t)
	better, err := input().Keep(t.Context(), plan, len(text)-1)
	require.NoError(t, err)
	require.NotEmpty(t, better, "content that does not fit is compressed better")
	_, err = plan.Restore(better)
	require.NoError(t, err)
	short, err := input().Keep(t.Context(), plan, len(better)-1)
	require.NoError(t, err)
	require.Empty(t, short)
	whole, err := input().Keep(t.Context(), plan, len(text))
	require.NoError(t, err)
	require.Equal(t, text, whole)

	noise := make([]byte, room)
	_, err = rand.Read(noise)
	require.NoError(t, err)
	for name, content := range map[string]*catalog.Content{
		"noise":          {Manifests: [][]byte{noise}},
		"very large":     {Manifests: [][]byte{make([]byte, maxContent+1)}},
		"many manifests": {Manifests: make([][]byte, maxLengths)},
	} {
		in, pins := holding(content)
		got, err := in.Keep(t.Context(), pins, room)
		require.NoError(t, err, name)
		require.Empty(t, got, name)
	}
}

// Four workers may encode content at the same time, while the catalogs are in memory, so even a bundle that does not
// fit must not use much memory.
func TestContentThatDoesNotFitCostsLittleMemory(t *testing.T) {
	noise := make([]byte, maxContent)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	in, pins := holding(&catalog.Content{Manifests: [][]byte{noise}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := in.Keep(t.Context(), pins, room)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Empty(t, text)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(40<<20))
}

func TestDoesNotKeepContentThatDiffersFromThePin(t *testing.T) {
	in, pins := holding(&catalog.Content{Manifests: [][]byte{[]byte("{}")}})
	pins.Pins[0].Digest = "sha256:0"
	_, err := in.Keep(t.Context(), pins, room)
	require.ErrorIs(t, err, ErrContent)
}

// onlyBundle is a reader with one bundle.
type onlyBundle struct{ content *catalog.Content }

func (o onlyBundle) Content(context.Context, string, string, string) (*catalog.Content, error) {
	return o.content, nil
}

// holding returns an Input whose catalog has this content, and a plan that pins it.
func holding(content *catalog.Content) (Input, Plan) {
	in := input()
	store := &catalog.Store{}
	snapshot := published("ns")
	snapshot.Reader = onlyBundle{content}
	store.Put(snapshot)
	in.Catalogs = store
	return in, Plan{Namespace: "ns", Pins: []Pin{{CatalogNamespace: "ns", Catalog: "cat", Package: "op", Bundle: "op.v1", Digest: content.Digest()}}}
}
