package fbc

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestLoadSmallCatalog(t *testing.T) {
	snap, err := Load(t.Context(), os.DirFS("testdata/small"))
	require.NoError(t, err)

	pkg := snap.Packages["hello"]
	require.Equal(t, "stable", pkg.DefaultChannel)
	head, err := pkg.Channels["stable"].Head()
	require.NoError(t, err)
	require.Equal(t, catalog.Entry{
		Name:      "hello.v1.1.0",
		Replaces:  "hello.v1.0.0",
		Skips:     []string{"hello.v1.0.1"},
		SkipRange: ">=1.0.0 <1.1.0",
	}, head)

	older, newer := pkg.Bundles["hello.v1.0.0"], pkg.Bundles["hello.v1.1.0"]
	require.Equal(t, "use 1.1.0", older.Deprecation)
	require.Equal(t, "quay.io/example/hello:1.0.0", older.Image)
	require.Equal(t, "1.1.0", newer.Version)
	require.Len(t, newer.Properties, 2, "all properties except the bundle objects are kept")

	content, err := snap.Reader.Content(t.Context(), "hello", "stable", "hello.v1.1.0")
	require.NoError(t, err)
	require.Len(t, content.Manifests, 1)
	require.Contains(t, string(content.Manifests[0]), "ClusterServiceVersion")
	_, err = snap.Reader.Content(t.Context(), "hello", "stable", "hello.v1.0.0")
	require.ErrorIs(t, err, catalog.ErrNoContent)
}

func TestDigestDoesNotDependOnFiles(t *testing.T) {
	split, err := Load(t.Context(), os.DirFS("testdata/small"))
	require.NoError(t, err)

	pkg, err := os.ReadFile("testdata/small/hello/package.yaml")
	require.NoError(t, err)
	bundles, err := os.ReadFile("testdata/small/hello/bundles.json")
	require.NoError(t, err)
	files := map[string][]byte{"z.yaml": pkg, "a.json": bundles}
	same, err := Loader{}.FromFiles(t.Context(), files)
	require.NoError(t, err)
	require.Equal(t, split.Digest, same.Digest)

	files["z.yaml"] = []byte(strings.Replace(string(pkg), "use 1.1.0", "use 1.1.1", 1))
	other, err := Loader{}.FromFiles(t.Context(), files)
	require.NoError(t, err)
	require.NotEqual(t, split.Digest, other.Digest)
}

const (
	pkgA     = "---\nschema: olm.package\nname: a\ndefaultChannel: stable\n"
	channelA = "---\nschema: olm.channel\npackage: a\nname: stable\nentries: [{name: a.v1}]\n"
	bundleA  = "---\nschema: olm.bundle\npackage: a\nname: a.v1\nproperties: [{type: olm.package, value: {packageName: a, version: 1.0.0}}]\n"
)

func TestRefusesMalformedCatalogs(t *testing.T) {
	withProperty := func(p string) string {
		return pkgA + channelA + "---\nschema: olm.bundle\npackage: a\nname: a.v1\nproperties: [" + p + "]\n"
	}
	for _, tt := range []struct {
		name, text, want string
	}{
		{"refuses an empty catalog", "", "the catalog is empty"},
		{"names a file that is not YAML", "a: [", `file "c.yaml": `},
		{"names a file that is not a catalog", "kind: Deployment", `file "c.yaml": not a file-based catalog: an object has no schema`},
		{"refuses a default channel that does not exist", strings.Replace(pkgA, "stable", "fast", 1) + channelA + bundleA,
			`package "a": its default channel "fast" does not exist`},
		{"refuses a package without a default channel", "schema: olm.package\nname: a\n", `package "a" has no default channel`},
		{"refuses an entry without a bundle", pkgA + channelA, `package "a", channel "stable": no bundle found for entry "a.v1"`},
		{"refuses a channel without entries", pkgA + "---\nschema: olm.channel\npackage: a\nname: stable\n" + bundleA,
			`package "a", channel "stable" has no entries`},
		{"refuses a duplicate package", pkgA + pkgA, `duplicate package "a"`},
		{"refuses a duplicate channel", pkgA + channelA + channelA + bundleA, `package "a": duplicate channel "stable"`},
		{"refuses a duplicate bundle", pkgA + channelA + bundleA + bundleA, `package "a": duplicate bundle "a.v1"`},
		{"refuses a name with a slash", pkgA + channelA + strings.Replace(bundleA, "a.v1", "../a.v1", 1), `must not contain a slash`},
		{"refuses an invalid version", withProperty("{type: olm.package, value: {packageName: a, version: one}}"),
			`package "a", bundle "a.v1": property 1 (olm.package): version "one"`},
		{"refuses another package's version", withProperty("{type: olm.package, value: {packageName: b, version: 1.0.0}}"),
			`packageName must be "a", but is "b"`},
		{"refuses an object by reference", withProperty("{type: olm.bundle.object, value: {ref: objects/csv.yaml}}"),
			`ref "objects/csv.yaml" is not supported`},
		{"refuses an object that is not base64", withProperty("{type: olm.bundle.object, value: {data: '*'}}"),
			`property 1 (olm.bundle.object): illegal base64`},
		{"refuses a file whose aliases expand too much", pkgA + "x: &x " + strings.Repeat("x", 400_000) + "\ny: [" + strings.Repeat("*x,", 100) + "]\n",
			`file "c.yaml": document 1: YAML aliases expand to more than`},
		{"refuses a deprecation of a missing bundle", pkgA + channelA + bundleA +
			"---\nschema: olm.deprecations\npackage: a\nentries: [{reference: {schema: olm.bundle, name: a.v9}, message: m}]\n",
			`olm.bundle "a.v9" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(t.Context(), fstest.MapFS{"c.yaml": {Data: []byte(tt.text)}})
			require.ErrorContains(t, err, tt.want)
			_, err = Loader{}.FromFiles(t.Context(), map[string][]byte{"c.yaml": []byte(tt.text)})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// ClusterExtensions do not use the default channel, and OLM v1 does not require one.
func TestPackagesMayOmitTheirDefaultChannelOnRequest(t *testing.T) {
	text := strings.Replace(pkgA, "defaultChannel: stable\n", "", 1) + channelA + bundleA
	_, err := Loader{}.FromFiles(t.Context(), map[string][]byte{"c.yaml": []byte(text)})
	require.ErrorContains(t, err, `package "a" has no default channel`)
	snap, err := Loader{AnyDefault: true}.FromFiles(t.Context(), map[string][]byte{"c.yaml": []byte(text)})
	require.NoError(t, err)
	require.Contains(t, snap.Packages["a"].Bundles, "a.v1")
}

func TestReportsSeveralMalformedFilesTogether(t *testing.T) {
	fsys := fstest.MapFS{"b.yaml": {Data: []byte("kind: B")}, "a.yaml": {Data: []byte("kind: A")}}
	_, err := Load(t.Context(), fsys)
	require.EqualError(t, err, `file "a.yaml": not a file-based catalog: an object has no schema; `+
		`file "b.yaml": not a file-based catalog: an object has no schema`)
}

func TestABrokenFileDoesNotAffectOthers(t *testing.T) {
	good := &fstest.MapFile{Data: []byte(pkgA + channelA + bundleA)}
	other := strings.NewReplacer("name: a", "name: b", "package: a", "package: b", "packageName: a", "packageName: b").Replace
	b := other(pkgA + channelA + bundleA)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const lost = `packages excluded because of these problems: "b"`
	for name, row := range map[string]struct {
		files fstest.MapFS
		want  []string
	}{
		"a README": {fstest.MapFS{"README.md": file("Not a catalog\n")},
			[]string{`file "README.md": not a file-based catalog: json: cannot unmarshal`}},
		"a truncated file":    {fstest.MapFS{"b.yaml": file(b + "---\na: [")}, []string{`file "b.yaml": `, lost}},
		"a part of a package": {fstest.MapFS{"b.yaml": file(other(pkgA + channelA)), "c.yaml": file(other(bundleA) + "---\nkind: X")}, []string{`file "c.yaml": not a file-based catalog: an object has no schema`, lost}},
		"an unknown part": {fstest.MapFS{"b.yaml": file(other(pkgA + channelA)), "c.yaml": file("[")},
			[]string{`file "c.yaml": `, `package "b", channel "stable": no bundle found for entry "b.v1"`, lost}},
		"a malformed bundle":  {fstest.MapFS{"b.yaml": file(strings.Replace(b, "1.0.0", "one", 1))}, []string{`file "b.yaml": package "b", bundle "b.v1": property 1`, lost}},
		"a duplicate package": {fstest.MapFS{"b.yaml": file(b), "c.yaml": file(other(pkgA))}, []string{`duplicate package "b"`, lost}},
		"a duplicate bundle":  {fstest.MapFS{"b.yaml": file(b), "c.yaml": file(other(bundleA))}, []string{`package "b": duplicate bundle "b.v1"`, lost}},
		"a package without a default channel": {fstest.MapFS{"a.yaml": file(pkgA + "---\nschema: olm.package\nname: b\n" + channelA + other(channelA+bundleA) + bundleA)},
			[]string{`file "a.yaml": package "b" has no default channel`}},
		"an unreadable channel in the same file": {fstest.MapFS{"a.yaml": file(pkgA + other(pkgA) + "---\nschema: olm.channel\npackage: b\nname: stable\nentries: 1\n" + channelA + bundleA)},
			[]string{`file "a.yaml": olm.channel "stable" of package "b": json`, lost}},
		"a malformed bundle in the same file": {fstest.MapFS{"a.yaml": file(pkgA + other(pkgA+channelA) + strings.Replace(other(bundleA), "1.0.0", "one", 1) + channelA + bundleA)},
			[]string{`file "a.yaml": package "b", bundle "b.v1": property 1`, lost}},
		"a channel of an unknown package": {fstest.MapFS{"b.yaml": file(other(channelA))}, []string{`channel "stable": package "b" not found`}},
		"a bundle of an unknown package":  {fstest.MapFS{"b.yaml": file(other(bundleA))}, []string{`bundle "b.v1": package "b" not found`}},
	} {
		t.Run(name, func(t *testing.T) {
			alone, err := Load(t.Context(), fstest.MapFS{"a.yaml": good})
			require.NoError(t, err)
			require.Empty(t, alone.Warnings)
			if row.files["a.yaml"] == nil {
				row.files["a.yaml"] = good
			}
			snap, err := Load(t.Context(), row.files)
			require.NoError(t, err)
			require.Equal(t, []string{"a"}, snap.PackageNames())
			require.Equal(t, alone.Digest, snap.Digest)
			require.Lenf(t, snap.Warnings, len(row.want), "%q", snap.Warnings)
			for i, want := range row.want {
				require.Contains(t, snap.Warnings[i], want)
			}
		})
	}
}

func TestCountsManyBrokenFiles(t *testing.T) {
	files := fstest.MapFS{"a.yaml": {Data: []byte(pkgA + channelA + bundleA)}}
	for i := range 300 {
		files[fmt.Sprintf("%03d%s", i, strings.Repeat("x", 200))] = &fstest.MapFile{Data: []byte("[" + strings.Repeat("y", 2000))}
	}
	snap, err := Load(t.Context(), files)
	require.NoError(t, err)
	require.Len(t, snap.Warnings, maxProblems+1)
	require.Contains(t, snap.Warnings[0], `file "000xxx`)
	require.Equal(t, "and 290 more", snap.Warnings[maxProblems])
	require.Less(t, len(strings.Join(snap.Warnings, "")), (maxProblem+8)*(maxProblems+1))
}

func TestLoadReadsAMountedConfigMapOnce(t *testing.T) {
	all := &fstest.MapFile{Data: []byte(pkgA + channelA + bundleA)}
	_, err := Load(t.Context(), fstest.MapFS{"catalog.yaml": all, "..2026_11_21/catalog.yaml": all})
	require.NoError(t, err)
}

func TestLoadHonorsIndexIgnore(t *testing.T) {
	_, err := Load(t.Context(), fstest.MapFS{
		"catalog.yaml": {Data: []byte(pkgA + channelA + bundleA)},
		"README.md":    {Data: []byte("# Not a catalog")},
		".indexignore": {Data: []byte("*.md\n")},
	})
	require.NoError(t, err)
}

func TestLimits(t *testing.T) {
	files := fstest.MapFS{"a": {Data: make([]byte, 100)}, "b": {Data: make([]byte, 100)}}
	for _, tt := range []struct {
		name            string
		maxFile, maxAll int64
		want            string
	}{
		{"a file may be as large as the limit", 100, 200, ""},
		{"a larger file is refused", 99, 200, "file is larger than 99 bytes"},
		{"files that are too large in total are refused", 100, 199, "larger than 199 bytes in total"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limited := &limitedFS{FS: files, maxFile: tt.maxFile, maxTotal: tt.maxAll}
			_, errA := fs.ReadFile(limited, "a")
			_, errB := fs.ReadFile(limited, "b")
			if tt.want == "" {
				require.NoError(t, errA)
				require.NoError(t, errB)
				return
			}
			require.ErrorContains(t, errB, tt.want)
		})
	}
}

func TestLoadStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Load(ctx, os.DirFS("testdata/small"))
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzFromFiles(f *testing.F) {
	f.Add([]byte(pkgA + channelA + bundleA))
	small, err := os.ReadFile("testdata/small/hello/bundles.json")
	require.NoError(f, err)
	f.Add(append(small, []byte("\n---\n"+pkgA)...))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		snap, err := (Loader{}).FromFiles(context.Background(), map[string][]byte{"f.yaml": data})
		if err != nil {
			return
		}
		for _, p := range snap.Packages {
			require.NoError(t, p.Validate())
		}
		again, err := (Loader{}).FromFiles(context.Background(), map[string][]byte{"f.yaml": data})
		require.NoError(t, err)
		require.Equal(t, snap.Digest, again.Digest)
	})
}

// A package that is refused took no memory from the limit, so that a catalog could have ten million of them. Its name is in memory twice
// while its file is read.
func TestNamesOfExcludedPackagesCountTowardTheMemoryOfACatalog(t *testing.T) {
	text := pkgA + channelA + bundleA
	var refused strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&refused, `{"schema":"olm.package","name":"%06d"}`, i)
	}
	load := func(kept int64) error {
		limits := catalog.TenantDecoding()
		limits.Kept = kept
		_, err := Loader{Limits: limits}.FromFiles(t.Context(), map[string][]byte{"a.yaml": []byte(text), "b.json": []byte(refused.String())})
		return err
	}
	require.ErrorContains(t, load(1<<20), "the catalog uses more than 1 MiB of memory")
	require.NoError(t, load(2<<20))
}

func TestASnapshotNamesFewExcludedPackages(t *testing.T) {
	text := pkgA + channelA + bundleA
	const more = 50
	for i := range catalog.MaxExcluded + more {
		text += fmt.Sprintf("---\nschema: olm.package\nname: x%06d\n", i)
	}
	snap, err := Loader{}.FromFiles(t.Context(), map[string][]byte{"c.yaml": []byte(text)})
	require.NoError(t, err)
	require.Len(t, snap.Excluded, catalog.MaxExcluded)
	require.True(t, slices.IsSorted(snap.Excluded))
	require.Equal(t, more, snap.MoreExcluded)
}

// A part of a string keeps the whole string in memory.
func TestAShortenedNameIsACopy(t *testing.T) {
	long, short := strings.Repeat("a", 1<<10), "a"
	require.Len(t, clip(long), catalog.MaxNameBytes)
	require.NotSame(t, unsafe.StringData(long), unsafe.StringData(clip(long)))
	require.Same(t, unsafe.StringData(short), unsafe.StringData(clip(short)))
}
