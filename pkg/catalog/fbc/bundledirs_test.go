package fbc

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestFromBundles(t *testing.T) {
	cfg, err := FromBundles(t.Context(), os.DirFS("testdata/bundles"))
	require.NoError(t, err)

	require.Len(t, cfg.Packages, 1)
	require.Equal(t, "stable", cfg.Packages[0].DefaultChannel)
	require.Len(t, cfg.Channels, 2)
	require.Equal(t, []declcfg.ChannelEntry{
		{Name: "hello.v1.1.0", Replaces: "hello.v1.0.0", Skips: []string{"hello.v1.0.1"}, SkipRange: "<1.1.0"},
		{Name: "hello.v1.0.0", SkipRange: "<1.0.0"},
	}, cfg.Channels[0].Entries)

	props, err := property.Parse(cfg.Bundles[0].Properties)
	require.NoError(t, err)
	require.Equal(t, []property.Package{{PackageName: "hello", Version: "1.1.0"}}, props.Packages)
	require.Equal(t, []property.GVK{
		{Group: "example.com", Version: "v1", Kind: "Hello"},
		{Group: "example.com", Version: "v1alpha1", Kind: "Hello"},
	}, props.GVKs, "every served version of an owned CRD")
	require.Equal(t, []property.GVKRequired{
		{Group: "example.org", Version: "v1beta1", Kind: "Greeting"},
		{Group: "example.net", Version: "v1", Kind: "World"},
	}, props.GVKsRequired)
	require.Equal(t, []property.PackageRequired{{PackageName: "world", VersionRange: ">=1.0.0"}}, props.PackagesRequired)
	require.Len(t, props.BundleObjects, 2)

	snap, err := FromConfig(cfg, nil)
	require.NoError(t, err)
	older := snap.Packages["hello"].Bundles["hello.v1.0.0"]
	require.Contains(t, propertyTypes(older), propertyMalformedDependencies)
}

func propertyTypes(b *catalog.Bundle) []string {
	var out []string
	for _, p := range b.Properties {
		out = append(out, p.Type)
	}
	return out
}

func TestFromBundlesReadsABundleAtTheRoot(t *testing.T) {
	cfg, err := FromBundles(t.Context(), os.DirFS("testdata/bundles/hello/1.1.0"))
	require.NoError(t, err)
	snap, err := FromConfig(cfg, nil)
	require.NoError(t, err, "the replaced version may be missing")
	head, err := snap.Packages["hello"].Channels["stable"].Head()
	require.NoError(t, err)
	require.Equal(t, "hello.v1.0.0", head.Replaces)
}

func TestFromBundlesJoinsSeveralHeads(t *testing.T) {
	cfg, err := FromBundles(t.Context(), fstest.MapFS{
		"1/metadata/annotations.yaml": annotations("a", "stable"),
		"1/manifests/csv.yaml":        csvFile("a.v1", "1.0.0"),
		"2/metadata/annotations.yaml": annotations("a", "stable"),
		"2/manifests/csv.yaml":        csvFile("a.v2", "2.0.0"),
	})
	require.NoError(t, err)
	snap, err := FromConfig(cfg, nil)
	require.NoError(t, err)
	head, err := snap.Packages["a"].Channels["stable"].Head()
	require.NoError(t, err)
	require.Equal(t, catalog.Entry{Name: "a.v2", Replaces: "a.v1"}, head)
}

func TestConnectKeepsDeclaredEdges(t *testing.T) {
	entry := func(name, replaces string, skips ...string) declcfg.ChannelEntry {
		return declcfg.ChannelEntry{Name: name, Replaces: replaces, Skips: skips}
	}
	for _, row := range []struct {
		name     string
		in, want []declcfg.ChannelEntry
	}{
		{"a chain", []declcfg.ChannelEntry{entry("c", "b"), entry("b", "a"), entry("a", "")}, []declcfg.ChannelEntry{entry("c", "b"), entry("b", "a"), entry("a", "")}},
		{"no edges", []declcfg.ChannelEntry{entry("c", ""), entry("b", ""), entry("a", "")}, []declcfg.ChannelEntry{entry("c", "b"), entry("b", "a"), entry("a", "")}},
		{"a missing replaced version", []declcfg.ChannelEntry{entry("c", "x"), entry("a", "")}, []declcfg.ChannelEntry{entry("c", "a"), entry("a", "")}},
		{"a branch", []declcfg.ChannelEntry{entry("d", "a"), entry("c", "b"), entry("b", "a"), entry("a", "")},
			[]declcfg.ChannelEntry{entry("d", "a", "c", "b"), entry("c", "b"), entry("b", "a"), entry("a", "")}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, connect(row.in)) })
	}
}

func TestNamesMalformedBundleDirectories(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files fstest.MapFS
		want  string
	}{
		{"no bundle", fstest.MapFS{"x/README.md": {}}, "no bundle found"},
		{"no package", fstest.MapFS{
			"x/metadata/annotations.yaml": {Data: []byte("annotations: {}")},
			"x/manifests/csv.yaml":        csvFile("a.v1", "1.0.0"),
		}, `bundle directory "x": metadata/annotations.yaml: annotation ` + annotationPackage + ` is required`},
		{"no CSV", fstest.MapFS{
			"x/metadata/annotations.yaml": annotations("a", "stable"),
			"x/manifests/sa.yaml":         {Data: []byte("kind: ServiceAccount")},
		}, `bundle directory "x": bundle must have exactly one ClusterServiceVersion, but has 0`},
		{"broken YAML", fstest.MapFS{
			"x/metadata/annotations.yaml": annotations("a", "stable"),
			"x/manifests/sa.yaml":         {Data: []byte("a: [")},
		}, `bundle directory "x": manifests/sa.yaml: document 1: `},
		{"duplicate bundle", fstest.MapFS{
			"x/metadata/annotations.yaml": annotations("a", "stable"),
			"x/manifests/csv.yaml":        csvFile("a.v1", "1.0.0"),
			"y/metadata/annotations.yaml": annotations("a", "stable"),
			"y/manifests/csv.yaml":        csvFile("a.v1", "1.0.0"),
		}, `package "a": directories "x" and "y" contain the same bundle "a.v1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := FromBundles(t.Context(), tt.files)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOmitsABrokenBundleDirectory(t *testing.T) {
	files := fstest.MapFS{
		"a/1/metadata/annotations.yaml": annotations("a", "stable"),
		"a/1/manifests/csv.yaml":        csvFile("a.v1", "1.0.0"),
		"a/1/manifests/more.yaml":       {Data: []byte("kind: ConfigMap\n---\nkind: ConfigMap\n")},
		"a/2/metadata/annotations.yaml": annotations("a", "stable"),
		"a/2/manifests/csv.yaml":        {Data: []byte("a: [")},
		"b/1/metadata/annotations.yaml": {Data: []byte("[")},
		"b/1/manifests/csv.yaml":        csvFile("b.v1", "1.0.0"),
	}
	snap, err := LoadDirectory(t.Context(), files)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, snap.PackageNames())
	require.Len(t, snap.Packages["a"].Bundles, 1)
	require.Len(t, snap.Warnings, 2)
	require.Contains(t, snap.Warnings[0], `bundle directory "a/2": manifests/csv.yaml: `)
	require.Contains(t, snap.Warnings[1], `bundle directory "b/1": metadata/annotations.yaml: `)

	content, err := snap.Reader.Content(t.Context(), "a", "stable", "a.v1")
	require.NoError(t, err)
	require.Equal(t, []string{"csv.yaml", "more.yaml, document 1", "more.yaml, document 2"}, content.Names)

	for _, name := range []string{"a/1/manifests/csv.yaml", "a/1/metadata/annotations.yaml", "a/1/manifests/more.yaml"} {
		delete(files, name)
	}
	_, err = LoadDirectory(t.Context(), files)
	require.ErrorContains(t, err, `bundle directory "a/2": manifests/csv.yaml: `)
}

// Bundles in the old format contain a package.yaml, and authors leave other files beside the manifests.
func TestOmitsFilesThatContainNoObjects(t *testing.T) {
	files := fstest.MapFS{
		"metadata/annotations.yaml": annotations("a", "stable"),
		"manifests/csv.yaml":        csvFile("a.v1", "1.0.0"),
		"manifests/package.yaml":    {Data: []byte("packageName: a\nchannels: [{name: stable, currentCSV: a.v1}]\n")},
		"manifests/README":          {Data: []byte("a: [")},
		"manifests/sa.yaml":         {Data: []byte("kind: ServiceAccount\nmetadata:\n  name: a\n  name: b\n")},
	}
	snap, err := LoadDirectory(t.Context(), files)
	require.NoError(t, err)
	require.Empty(t, snap.Warnings, "the bundle is complete")
	content, err := snap.Reader.Content(t.Context(), "a", "stable", "a.v1")
	require.NoError(t, err)
	require.Equal(t, []string{"csv.yaml", "sa.yaml"}, content.Names)
	require.JSONEq(t, `{"kind": "ServiceAccount", "metadata": {"name": "b"}}`, string(content.Manifests[1]))
	require.Equal(t, []string{
		`manifest "README": omitted, because its name does not end in .yaml, .yml or .json`,
		`manifest "package.yaml": line 1: omitted, because it is not a Kubernetes object: it has neither apiVersion nor kind`,
		`manifest "sa.yaml": line 4: key "name" is repeated; its last value is used`,
	}, content.Warnings)

	_, err = ReadBundle(t.Context(), files)
	require.ErrorContains(t, err, `ClusterServiceVersion "a.v1": missing APIVersion`)
	files["manifests/csv.yaml"].Data = append([]byte("apiVersion: operators.coreos.com/v1alpha1\n"), files["manifests/csv.yaml"].Data...)
	b, err := ReadBundle(t.Context(), files)
	require.NoError(t, err)
	require.Equal(t, content.Warnings, b.Warnings)
}

// The limits apply to what the aliases of all documents add, before it is stored.
func TestLimitsTheDocumentsOfABundle(t *testing.T) {
	document := "kind: ConfigMap\nx: &x " + strings.Repeat("x", 1000) + "\ny: [" + strings.Repeat("*x,", 3000) + "]\n---\n"
	_, err := Manifests(t.Context(), fstest.MapFS{"manifests/a.yaml": {Data: []byte(strings.Repeat(document, 6))}}, ".", nil)
	require.ErrorContains(t, err, "more than 12582912 bytes of manifests")
	_, err = Manifests(t.Context(), fstest.MapFS{"manifests/a.yaml": {Data: []byte(strings.Repeat("kind: A\n---\n", catalog.MaxManifests+1))}}, ".", nil)
	require.ErrorContains(t, err, "more than 10000 manifests")

	costly := &fstest.MapFile{Data: []byte("kind: ConfigMap\nx: [" + strings.Repeat("a,", 300_000) + "]\n")}
	files := fstest.MapFS{}
	for i := range 6 {
		files[fmt.Sprintf("manifests/%d.yaml", i)] = costly
	}
	_, err = Manifests(t.Context(), files, ".", nil)
	require.ErrorContains(t, err, "the manifests of the bundle have too many values: decoding all of them would need more than 512 MiB of memory")
}

func annotations(pkg, channels string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("annotations:\n  " + annotationPackage + ": " + pkg + "\n  " + annotationChannels + ": " + channels + "\n")}
}

func csvFile(name, version string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("kind: ClusterServiceVersion\nmetadata: {name: " + name + "}\nspec: {version: " + version + "}\n")}
}

func FuzzFromBundles(f *testing.F) {
	f.Add(csvFile("a.v1", "1.0.0").Data, []byte("dependencies: [{type: olm.package, value: {packageName: b}}]"))
	f.Add([]byte("kind: ClusterServiceVersion\n---\nkind: CustomResourceDefinition\nspec: {versions: [{name: v1}]}"), []byte("dependencies: ["))
	f.Fuzz(func(t *testing.T, csv, dependencies []byte) {
		cfg, err := FromBundles(t.Context(), fstest.MapFS{
			"metadata/annotations.yaml":  annotations("a", "stable"),
			"metadata/dependencies.yaml": {Data: dependencies},
			"manifests/csv.yaml":         {Data: csv},
		})
		if err == nil {
			_, _ = FromConfig(cfg, nil)
		}
	})
}
