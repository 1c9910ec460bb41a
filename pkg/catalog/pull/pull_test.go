package pull

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

const good = `{"schema":"olm.package","name":"a","defaultChannel":"stable"}
{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"example.com/a:v1","properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}]}
`

// site is a registry with one catalog, and a store.
type site struct {
	*testing.T
	registry *registry.Server
	client   *image.Client
	dir      string
	store    *disk.Store
	// turns counts how often a catalog was parsed.
	turns int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, registry: registry.New(t), dir: t.TempDir()}
	var err error
	s.client, err = image.New(image.Options{AllPlain: true})
	require.NoError(t, err)
	s.store, err = disk.Open(s.dir, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.store.Close() })
	return s
}

func (s *site) push(files map[string]string) *image.Image {
	s.Helper()
	all := fstest.MapFS{}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	made, err := registry.Catalog(all)
	require.NoError(s, err)
	ref, _, err := s.registry.Push("catalog:v1", made)
	require.NoError(s, err)
	opened, err := s.client.Open(s.Context(), ref, image.Access{Anywhere: true})
	require.NoError(s, err)
	return opened
}

func (s *site) options() Options {
	return Options{Disk: s.store, Lines: true, Turn: func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
		s.turns++
		return ctx, fbc.Loader{}, func() {}, nil
	}}
}

func text(t *testing.T, l *disk.Lines) string {
	t.Helper()
	var out strings.Builder
	for _, line := range l.All() {
		_, err := io.Copy(&out, l.Open(line))
		require.NoError(t, err)
	}
	return out.String()
}

func TestReadsAnImageOnce(t *testing.T) {
	s := newSite(t)
	from := s.push(map[string]string{"a.json": good})
	got, err := Read(t.Context(), from, s.options())
	require.NoError(t, err)
	require.Contains(t, got.Packages, "a")
	require.Len(t, got.Lines.All(), 3)
	require.Contains(t, text(t, got.Lines), `{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"}]}`+"\n")

	again, err := Read(t.Context(), from, s.options())
	require.NoError(t, err)
	require.Equal(t, got.Digest, again.Digest)
	require.Equal(t, text(t, got.Lines), text(t, again.Lines))
	require.Equal(t, 2, s.turns, "a stored catalog is read in a turn, too")

	Drop(got.Snapshot)
	Drop(again.Snapshot)
	files, err := filepath.Glob(filepath.Join(s.dir, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, files)
}

// A catalog that was stored without its lines, or whose lines are damaged, is read again.
func TestReadsACatalogAgainForItsLines(t *testing.T) {
	s := newSite(t)
	from := s.push(map[string]string{"a.json": good})
	o := s.options()
	o.Lines = false
	got, err := Read(t.Context(), from, o)
	require.NoError(t, err)
	require.Nil(t, got.Lines)
	full, err := Read(t.Context(), from, s.options())
	require.NoError(t, err)
	require.Len(t, full.Lines.All(), 3)
	require.Equal(t, 3, s.turns)
}

// Display-only data is stored too, separately from the lines that are served.
func TestStoresWhatIsDisplayed(t *testing.T) {
	s := newSite(t)
	from := s.push(map[string]string{"a.json": strings.Replace(good, `"version":"1.0.0"}}`, `"version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"displayName":"A"}}`, 1)})
	o := s.options()
	o.Lines, o.Displays = false, true
	for turns := 1; turns <= 2; turns++ {
		got, err := Read(t.Context(), from, o)
		require.NoError(t, err)
		text, err := got.Displays.BundleDisplay(t.Context(), "a", "stable", "a.v1")
		require.NoError(t, err)
		require.JSONEq(t, `{"displayName":"A"}`, string(text))
		require.Equal(t, turns, s.turns)
	}
	full, err := Read(t.Context(), from, s.options())
	require.NoError(t, err)
	require.Len(t, full.Lines.All(), 3)
	require.Equal(t, 4, s.turns)
}

// A stored catalog is found without reading the image, and therefore by the directory that a CatalogSource names.
func TestStoresTheCatalogsOfEachDirectory(t *testing.T) {
	s := newSite(t)
	files, err := registry.Layer(fstest.MapFS{"x/a.json": {Data: []byte(good)}, "y/a.json": {Data: []byte(strings.ReplaceAll(good, `"a"`, `"b"`))}}, "configs")
	require.NoError(t, err)
	made, err := registry.Image(nil, files)
	require.NoError(t, err)
	ref, _, err := s.registry.Push("plain:v1", made)
	require.NoError(t, err)
	from, err := s.client.Open(t.Context(), ref, image.Access{Anywhere: true})
	require.NoError(t, err)
	at := Location{from.Repository, from.Named.String()}
	o := s.options()
	for folder, pkg := range map[string]string{"x": "a", "y": "b"} {
		o.Extract = "/configs/" + folder
		_, err = Stored(t.Context(), at, o)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = Read(t.Context(), from, o)
		require.NoError(t, err)
		got, err := Stored(t.Context(), at, o)
		require.NoError(t, err)
		require.Contains(t, got.Packages, pkg)
	}
}

// Lines do not contain the objects of packages that are excluded from the Snapshot.
func TestLinesOmitExcludedPackages(t *testing.T) {
	s := newSite(t)
	broken := strings.ReplaceAll(strings.ReplaceAll(good, `"a"`, `"b"`), "a.v1", "b.v1")
	from := s.push(map[string]string{"a.json": good, "b.json": broken + "{", "note.json": `{"schema":"custom","name":"note"}`})
	got, err := Read(t.Context(), from, s.options())
	require.NoError(t, err)
	require.NotEmpty(t, got.Warnings)
	require.Contains(t, text(t, got.Lines), `"a.v1"`)
	require.Contains(t, text(t, got.Lines), `"note"`)
	require.NotContains(t, text(t, got.Lines), `"b.v1"`)
}

func TestDistinguishesInvalidImagesFromOtherErrors(t *testing.T) {
	s := newSite(t)
	refused := func(err error) bool {
		_, is := errors.AsType[Refused](err)
		return is
	}
	_, err := Read(t.Context(), s.push(map[string]string{"a.json": "{"}), s.options())
	require.True(t, refused(err), "%v", err)
	require.ErrorContains(t, err, "read the file-based catalog: file \"a.json\"")

	o := s.options()
	full := errors.New("full")
	o.Take = func(int64) error { return full }
	_, err = Read(t.Context(), s.push(map[string]string{"a.json": good}), o)
	require.ErrorIs(t, err, full)
	require.False(t, refused(err))

	o = s.options()
	turn := o.Turn
	o.Turn = func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
		ctx, loader, end, err := turn(ctx)
		loader.Take = func(int64) error { return full }
		return ctx, loader, end, err
	}
	_, err = Read(t.Context(), s.push(map[string]string{"a.json": good}), o)
	require.ErrorIs(t, err, full)
	require.False(t, refused(err))

	o.Turn = func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
		return ctx, fbc.Loader{}, nil, full
	}
	_, err = Read(t.Context(), s.push(map[string]string{"a.json": good}), o)
	require.ErrorIs(t, err, full)

	made, err := registry.Image(nil)
	require.NoError(t, err)
	ref, _, err := s.registry.Push("plain:v1", made)
	require.NoError(t, err)
	plain, err := s.client.Open(t.Context(), ref, image.Access{Anywhere: true})
	require.NoError(t, err)
	_, err = Read(t.Context(), plain, s.options())
	require.ErrorIs(t, err, layer.ErrNoCatalog)

	left, err := os.ReadDir(filepath.Join(s.dir, "work"))
	require.NoError(t, err)
	require.Empty(t, left, "temporary files are deleted")
}

// Assembling and storing a catalog takes time as well, after its last document.
func TestOtherCatalogsProceedBetweenTheStepsOfOne(t *testing.T) {
	s := newSite(t)
	calls := 0
	o := s.options()
	o.Turn = func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
		return ctx, fbc.Loader{Between: func(context.Context) error { calls++; return nil }}, func() {}, nil
	}
	_, err := Read(t.Context(), s.push(map[string]string{"a.json": good}), o)
	require.NoError(t, err)
	const file, documents, steps = 1, 3, 3 // it is assembled, stored, and its lines are stored
	require.Equal(t, file+documents+steps, calls)
}

// registryTurn records when the registry may be read.
type registryTurn struct {
	begun bool
	log   []string
	err   error
}

func (r *registryTurn) Begin(context.Context) error {
	r.begun = true
	r.log = append(r.log, "begin")
	return r.err
}

func (r *registryTurn) End() {
	if r.begun {
		r.log = append(r.log, "end")
	}
	r.begun = false
}

// A catalog that waits to be parsed must not keep those of others from being read.
func TestTheTurnOfARegistryEndsBeforeACatalogIsParsed(t *testing.T) {
	s := newSite(t)
	from := s.push(map[string]string{"a.json": good})
	turn := &registryTurn{}
	o := s.options()
	o.Registry = turn
	parse := o.Turn
	o.Turn = func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
		turn.log = append(turn.log, "parse")
		return parse(ctx)
	}
	_, err := Read(t.Context(), from, o)
	require.NoError(t, err)
	require.Equal(t, []string{"begin", "end", "parse"}, turn.log)
	turn.begun, turn.log = true, nil
	_, err = Read(t.Context(), from, o)
	require.NoError(t, err)
	require.Equal(t, []string{"end", "parse"}, turn.log, "the catalog is stored")

	turn.err = errors.New("not now")
	other := s.push(map[string]string{"a.json": good + "\n"})
	_, err = Read(t.Context(), other, o)
	require.ErrorIs(t, err, turn.err)
}
