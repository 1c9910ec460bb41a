package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/env/corpus"
	"github.com/remit-olm/remit/test/env/registry"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// Published operators repeat keys in their manifests, and have several objects in one manifest. OLM uses the last value and all
// objects, so every reader of bundles does, too: all find the same objects.
func TestEveryReaderReadsRepeatedKeysAndSeveralDocuments(t *testing.T) {
	const csvFile = "manifests/sample-operator.clusterserviceversion.yaml"
	for name, edit := range map[string]func(file func(name, more string)){
		"a repeated key in the CSV":       func(file func(name, more string)) { file(csvFile, "kind: ClusterServiceVersion\n") },
		"several documents in a manifest": func(file func(name, more string)) { file("manifests/more.yaml", configMaps("a", "b")) },
		"a repeated key in each of several": func(file func(name, more string)) {
			file("manifests/more.yaml", strings.ReplaceAll(configMaps("a", "b"), "kind: ConfigMap\n", "kind: Secret\nkind: ConfigMap\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "bundle")
			require.NoError(t, os.CopyFS(dir, sample.FS()))
			edit(func(name, more string) {
				path := filepath.Join(dir, name)
				text, err := os.ReadFile(path)
				if !os.IsNotExist(err) {
					require.NoError(t, err)
				}
				require.NoError(t, os.WriteFile(path, append(text, more...), 0o600))
			})
			want := []string{"ConfigMap sample-operator-defaults", "CustomResourceDefinition greetings.sample.remit.dev", "Service sample-operator-health"}
			if _, err := os.Stat(filepath.Join(dir, "manifests", "more.yaml")); err == nil {
				want = append(want, "ConfigMap a", "ConfigMap b")
			}
			for reader, read := range readers(t, parent, dir) {
				b := read()
				require.Equal(t, sample.CSV, b.CSV.Name, reader)
				require.ElementsMatch(t, want, objectsOf(b), reader)
				require.NotEmpty(t, b.Warnings, "%s: what was repeated is said", reader)
			}
		})
	}
}

func configMaps(names ...string) string {
	var out []string
	for _, name := range names {
		out = append(out, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "+name+"\n")
	}
	return strings.Join(out, "---\n")
}

func objectsOf(b *bundle.Bundle) (out []string) {
	for _, obj := range b.Objects {
		if obj.GetKind() != "ClusterServiceVersion" {
			out = append(out, obj.GetKind()+" "+obj.GetName())
		}
	}
	return out
}

// readers returns the readers of a bundle: those of commands with a directory and with an image, that of a bundle's directory, and
// that of a directory of bundles, which is a catalog.
func readers(t *testing.T, parent, dir string) map[string]func() *bundle.Bundle {
	t.Helper()
	load := func(arg string) func() *bundle.Bundle {
		return func() *bundle.Bundle {
			b, err := (&Flags{}).Load(t.Context(), arg)
			require.NoError(t, err)
			return b.Bundle
		}
	}
	images := registry.Start()
	t.Cleanup(images.Close)
	image, err := registry.Bundle(os.DirFS(dir))
	require.NoError(t, err)
	ref, _, err := images.Push("bundle:v1", image)
	require.NoError(t, err)
	return map[string]func() *bundle.Bundle{
		"a command with a directory": load(dir),
		"a command with an image":    load(ref),
		"the directory of a bundle": func() *bundle.Bundle {
			b, err := fbc.ReadBundle(t.Context(), os.DirFS(dir))
			require.NoError(t, err)
			return b
		},
		"a directory of bundles": func() *bundle.Bundle {
			snapshot, err := fbc.LoadDirectory(t.Context(), os.DirFS(parent))
			require.NoError(t, err)
			require.Empty(t, snapshot.Warnings)
			pkg, name, err := singleBundle(snapshot)
			require.NoError(t, err)
			content, err := snapshot.Reader.Content(t.Context(), pkg, "", name)
			require.NoError(t, err)
			b, err := bundle.ParseContent(t.Context(), content)
			require.NoError(t, err)
			return b
		},
	}
}

// The corpus has the operators that repeat keys or have several objects in one manifest: commands read every bundle in it.
func TestReadsEveryBundleOfTheCorpus(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(corpus.Dir(t, "bundles"), "*", "*", "manifests"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range slices.Compact(dirs) {
		if _, err := os.Stat(filepath.Join(dir, "..", "metadata", "annotations.yaml")); err != nil {
			continue
		}
		_, err := (&Flags{}).Load(t.Context(), filepath.Dir(dir))
		require.NoError(t, err)
	}
}
