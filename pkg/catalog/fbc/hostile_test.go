package fbc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// repeated is a file that consists of repeated text, which is generated as it is read.
type repeated struct {
	begin, text string
	size        int64
	at          int64
}

func (r *repeated) Open(name string) (fs.File, error) {
	if name == "." {
		return fstest.MapFS{"catalog.yaml": {}}.Open(".")
	}
	if name != "catalog.yaml" {
		return nil, fs.ErrNotExist
	}
	return &repeated{begin: r.begin, text: r.text, size: r.size}, nil
}

func (r *repeated) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
func (r *repeated) Close() error               { return nil }

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && r.at < r.size {
		from := r.begin
		if r.at >= int64(len(r.begin)) {
			from = r.text[(r.at-int64(len(r.begin)))%int64(len(r.text)):]
		} else {
			from = from[r.at:]
		}
		copied := copy(p[n:], from)
		n += copied
		r.at += int64(copied)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// peak returns the maximum growth of the heap while f runs. It collects garbage as often as a program does by default,
// regardless of GOGC.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		every := time.NewTicker(time.Millisecond)
		defer every.Stop()
		for {
			runtime.ReadMemStats(&now)
			most.Store(max(most.Load(), now.HeapAlloc))
			select {
			case <-done:
				return
			case <-every.C:
			}
		}
	})
	f()
	close(done)
	group.Wait()
	return most.Load() - min(most.Load(), before.HeapAlloc)
}

// The files are up to 256 MiB in size.
func TestHostileCatalogsUseBoundedMemory(t *testing.T) {
	const size = 256 << 20
	for name, file := range map[string]*repeated{
		"empty objects":                {text: "{},", size: size},
		"empty objects of a YAML list": {begin: "schema: olm.bundle\nproperties: [", text: "{},", size: size},
		"empty objects of a JSON list": {begin: `{"schema":"olm.bundle","properties":[`, text: "{},", size: size},
		"a YAML block list":            {begin: "schema: olm.bundle\nproperties:\n", text: "- {}\n", size: size},
		"nested lists":                 {text: "- ", size: size},
		"nested flow lists":            {begin: "a: ", text: "[", size: size},
		"nested JSON":                  {begin: `{"a":`, text: `{"a":`, size: size},
		"a long string":                {begin: `{"schema":"`, text: "abcdefgh", size: size},
		"a long line":                  {text: "abcdefgh", size: size},
		"many tiny packages":           {text: `{"schema":"olm.deprecations","package":"p","entries":[{"message":"m"}]}`, size: size},
		"many tiny objects":            {text: `{"schema":"x"}`, size: 4 << 20},
	} {
		for _, limits := range []catalog.DecodingLimits{catalog.TenantDecoding(), catalog.GlobalDecoding()} {
			limits.Kept = 4 << 20 // so that the test reaches the limit sooner
			t.Run(fmt.Sprintf("%s, at most %d MiB", name, limits.Cost>>20), func(t *testing.T) {
				var err error
				got := peak(func() {
					_, err = Loader{Limits: limits, Decoding: catalog.NewDecoding()}.Load(t.Context(), file)
				})
				require.Error(t, err)
				require.Less(t, len(err.Error()), 1024)
				require.Less(t, int64(got), limits.Cost+limits.Kept+96<<20, "%d MiB: %v", got>>20, err)
			})
		}
	}
}

func TestExpensiveYAMLIsRefusedWithAHint(t *testing.T) {
	for _, text := range []string{
		"schema: x\nv: " + strings.Repeat("a", 5<<20),
		"schema: x\nv: [" + strings.Repeat("{},", 1<<20) + "]",
	} {
		_, err := Loader{Limits: catalog.TenantDecoding()}.FromFiles(t.Context(), map[string][]byte{"a.yaml": []byte(text)})
		require.ErrorContains(t, err, "use JSON")
	}
	many := strings.Repeat("schema: x\nv: "+strings.Repeat("a", 1<<20)+"\n---\n", 3)
	limits := catalog.TenantDecoding()
	limits.AllYAMLBytes = 2 << 20
	_, err := Loader{Limits: limits}.FromFiles(t.Context(), map[string][]byte{"a.yaml": []byte(many)})
	require.ErrorContains(t, err, "use JSON")
}

func TestAJSONFileCanContinueAsYAML(t *testing.T) {
	pkg := `{"schema":"olm.package","name":"a","defaultChannel":"stable"}`
	for _, text := range []string{
		pkg + "\n---\nschema: olm.channel\npackage: a\nname: stable\nentries: [{name: a.v1}]\n---\n" + `{"schema":"olm.bundle","package":"a","name":"a.v1","properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}]}`,
		"{schema: olm.package, name: a, defaultChannel: stable}\n---\n{schema: olm.channel, package: a, name: stable, entries: [{name: a.v1}]}\n---\n" +
			"# nothing\n---\n{schema: olm.bundle, package: a, name: a.v1, properties: [{type: olm.package, value: {packageName: a, version: 1.0.0}}]}",
	} {
		snap, err := Loader{}.FromFiles(t.Context(), map[string][]byte{"a.yaml": []byte(text)})
		require.NoError(t, err)
		require.Len(t, snap.Packages["a"].Bundles, 1)
	}
}

func TestDecodesLargeDocumentsOneAtATime(t *testing.T) {
	decoding := catalog.NewDecoding()
	end, err := decoding.Begin(t.Context(), catalog.DecodingMemory)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	large := []byte(`{"schema":"x","v":"` + strings.Repeat("a", 4<<20) + `"}`)
	_, err = Loader{Decoding: decoding}.FromFiles(ctx, map[string][]byte{"a.json": large})
	require.ErrorIs(t, err, context.Canceled)
	end()
	_, err = Loader{Decoding: decoding}.FromFiles(t.Context(), map[string][]byte{"a.json": large})
	require.ErrorContains(t, err, "the catalog is empty")
}

// A load can wait between two documents while other catalogs are read. It must not retain a large document while it
// waits.
func TestReleasesTheMemoryOfALargeDocument(t *testing.T) {
	large := `{"schema":"x","v":"` + strings.Repeat("a", 20<<20) + `"}`
	for name, file := range map[string]string{
		"a.json": large + "\n" + `{"schema":"x"}` + large + "\n---\nschema: x\n",
		"a.yaml": "# YAML\n---\nschema: x\n---\nschema: x\nv: " + strings.Repeat("a", 3<<20) + "\n---\nschema: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			var before, now runtime.MemStats
			files := fstest.MapFS{name: {Data: []byte(file)}}
			runtime.GC()
			runtime.ReadMemStats(&before)
			most, documents := uint64(0), 0
			_, err := Loader{Decoding: catalog.NewDecoding(), Between: func(ctx context.Context) error {
				runtime.GC()
				runtime.GC() // the second run frees the contents of sync.Pools
				runtime.ReadMemStats(&now)
				most, documents = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc)), documents+1
				return ctx.Err()
			}}.Load(t.Context(), files)
			require.ErrorContains(t, err, "the catalog is empty")
			require.Equal(t, 6, documents, "four documents, the file and the end")
			require.Less(t, most, uint64(1<<20), "%d MiB", most>>20)
		})
	}
}

func TestReservesMemoryBeforeUsingIt(t *testing.T) {
	full := errors.New("no memory is left")
	text := strings.Repeat("x", 100<<10)
	for name, document := range map[string]string{
		"bundles":                       `{"schema":"olm.bundle","package":"p","name":"b%d","image":"` + text + `"}`,
		"package names of bundles":      `{"schema":"olm.bundle","package":"` + text + `","name":"b%d"}`,
		"properties":                    `{"schema":"olm.bundle","package":"p","name":"b%d","properties":[{"type":"x","value":"` + text + `"}]}`,
		"packages":                      `{"schema":"olm.package","name":"p%d","defaultChannel":"` + text + `"}`,
		"channels":                      `{"schema":"olm.channel","package":"p%d","name":"` + text + `"}`,
		"package names of channels":     `{"schema":"olm.channel","package":"p%d` + text + `"}`,
		"entries":                       `{"schema":"olm.channel","package":"p%d","name":"c","entries":[{"name":"x","skips":["` + text + `"]}]}`,
		"deprecations":                  `{"schema":"olm.deprecations","package":"p%d","entries":[{"message":"` + text + `"}]}`,
		"package names of deprecations": `{"schema":"olm.deprecations","package":"p%d` + text + `"}`,
		"schemas of deprecations":       `{"schema":"olm.deprecations","package":"p%d","entries":[{"reference":{"schema":"` + text + `"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for n := range 40 {
				files[fmt.Sprint(n, ".json")] = &fstest.MapFile{Data: []byte(fmt.Sprintf(document, n))}
			}
			asked := 0
			_, err := Loader{Take: func(kept int64) error {
				if asked++; kept > 1<<20 {
					return full
				}
				return nil
			}}.Load(t.Context(), files)
			require.Equal(t, full, err, "the error is not wrapped")
			require.LessOrEqual(t, asked, 1<<20/(100<<10)+1, "nothing is reserved after an error")
		})
	}
}
