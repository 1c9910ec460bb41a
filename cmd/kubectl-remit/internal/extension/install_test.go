package extension

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// flags describes a ClusterExtension for the sample operator.
func flags(catalog string) *Flags {
	return &Flags{Package: sample.Package, Namespace: "ops", Catalog: catalog, RemitNamespace: "remit"}
}

func TestReadsEveryKindOfCatalog(t *testing.T) {
	images := registry.Start()
	defer images.Close()
	inline, err := env.SampleFBC()
	require.NoError(t, err)
	catalogImage, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: []byte(inline)}})
	require.NoError(t, err)
	ref, _, err := images.Push("catalog:v1", catalogImage)
	require.NoError(t, err)
	dir, bundles := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "catalog.json")
	require.NoError(t, os.WriteFile(file, []byte(inline), 0o600))
	require.NoError(t, os.CopyFS(bundles, sample.FS()))
	for name, catalog := range map[string]string{"a file": file, "a directory": dir, "a directory of bundles": bundles, "an image": ref} {
		t.Run(name, func(t *testing.T) {
			f := flags(catalog)
			require.False(t, f.NeedsCluster())
			got, err := f.Load(t.Context(), "demo", Source{})
			require.NoError(t, err)
			require.Equal(t, "ClusterExtension demo (bundle \""+sample.CSV+"\", version 0.1.0)", got.String())
			require.NotEmpty(t, got.Steps)
			require.Equal(t, []string{"not checked without a cluster: the bundle requires Kubernetes 1.25.0 or later"}, got.Notes)
		})
	}
}

// ClusterExtensions do not use the default channel, and OLM v1 does not require one.
func TestReadsCatalogsWithoutADefaultChannel(t *testing.T) {
	with, err := env.SampleFBC()
	require.NoError(t, err)
	inline := regexp.MustCompile(`,\s*"defaultChannel": "[^"]*"`).ReplaceAllString(with, "")
	require.Less(t, len(inline), len(with))
	images := registry.Start()
	defer images.Close()
	catalogImage, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: []byte(inline)}})
	require.NoError(t, err)
	ref, _, err := images.Push("catalog:v1", catalogImage)
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "catalog.json")
	require.NoError(t, os.WriteFile(file, []byte(inline), 0o600))
	for name, catalog := range map[string]string{"a file": file, "a directory": dir, "an image": ref} {
		t.Run(name, func(t *testing.T) {
			got, err := flags(catalog).Load(t.Context(), "demo", Source{})
			require.NoError(t, err)
			require.NotEmpty(t, got.Steps)
		})
	}
	snap, err := loaded(t.Context(), "a cluster's catalog", []byte(inline))
	require.NoError(t, err)
	require.NotEmpty(t, snap.Packages[sample.Package].Bundles)
}

func TestReadsTheImageOfABundleThatTheCatalogDoesNotContain(t *testing.T) {
	images := registry.Start()
	defer images.Close()
	image, err := registry.Bundle(sample.FS())
	require.NoError(t, err)
	ref, _, err := images.Push("bundle:v1", image)
	require.NoError(t, err)
	load := func(image string) (*Install, error) {
		text, err := env.SampleFBCByImage(image)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "catalog.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return flags(file).Load(t.Context(), "demo", Source{})
	}
	got, err := load(ref)
	require.NoError(t, err)
	require.NotEmpty(t, got.Steps)
	_, err = load(images.Host + "/none:v1")
	require.ErrorContains(t, err, "bundle \""+sample.CSV+"\", version 0.1.0: bundle \""+images.Host+"/none:v1\": ")
}

// A catalog must not determine which files of the user are read. The image is also the relative path of a directory here.
func TestTheImageOfABundleIsNoPath(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "localhost", "bundle"), sample.FS()))
	t.Chdir(dir)
	for _, image := range []string{"localhost/bundle", filepath.Join(dir, "localhost", "bundle"), "./localhost/bundle"} {
		text, err := env.SampleFBCByImage(image)
		require.NoError(t, err)
		file := filepath.Join(dir, "catalog.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = flags(file).Load(t.Context(), "demo", Source{})
		require.Error(t, err, image)
	}
}

func TestReportsProblemsOfTheCatalog(t *testing.T) {
	inline, err := env.SampleFBC()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(inline), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.json"), []byte(`{"schema":`), 0o600))
	got, err := flags(dir).Load(t.Context(), "demo", Source{})
	require.NoError(t, err)
	require.Len(t, got.Notes, 2)
	require.Contains(t, got.Notes[0], `catalog `+dir+`: file "b.json"`)
}

func TestAnUpgradeRemovesObjectsThatTheNewVersionDoesNotHave(t *testing.T) {
	bundles := t.TempDir()
	require.NoError(t, os.CopyFS(bundles, sample.FS()))
	got, err := flags(bundles).Load(t.Context(), "demo", Source{})
	require.NoError(t, err)
	got.Extension.Status.Inventory = []olmv1.InventoryObject{
		{Kind: "ConfigMap", Namespace: "ops", Name: "old"}, {Kind: "ConfigMap", Namespace: "victim", Name: "other"},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "olds.example.com"},
		{Group: "example.com", Kind: "Gone", Name: "a"},
	}
	for _, s := range got.Steps {
		gvk := s.Object.GroupVersionKind()
		got.Extension.Status.Inventory = append(got.Extension.Status.Inventory, olmv1.InventoryObject{
			Group: gvk.Group, Kind: gvk.Kind, Namespace: s.Object.GetNamespace(), Name: s.Object.GetName(),
		})
	}
	versions := []schema.GroupVersion{{Version: "v1"}}
	for _, s := range got.Steps {
		versions = append(versions, s.Object.GroupVersionKind().GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
	for _, s := range got.Steps {
		mapper.Add(s.Object.GroupVersionKind(), meta.RESTScopeNamespace)
	}
	own := ownerutil.Lineage{Package: sample.Package, Namespace: got.Extension.Spec.Namespace, Extension: "demo"}
	needs, err := got.Removals(mapper, func(obj *unstructured.Unstructured, lineage ownerutil.Lineage) bool {
		require.Equal(t, own.Mark(), lineage.Mark())
		return obj.GetName() == "old"
	})
	require.NoError(t, err)
	require.Len(t, needs, 1)
	require.Equal(t, "ConfigMap ops/old", needs[0].Object)
}
