package source

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

func sampleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.FS()))
	return dir
}

func TestReadsABundleDirectoryWithItsPackage(t *testing.T) {
	b, err := (&Flags{}).Load(t.Context(), sampleDir(t))
	require.NoError(t, err)
	require.Equal(t, sample.Package, b.Package)
	require.Equal(t, sample.CSV, b.CSV.Name)
	require.NotEmpty(t, b.Objects)
}

func TestReadsABundleFromItsImage(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.AddFS(sample.FS()))
	require.NoError(t, w.Close())
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(archive.Bytes(), types.OCIUncompressedLayer))
	require.NoError(t, err)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/sample:v1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image))

	b, err := (&Flags{}).Load(t.Context(), ref.String())
	require.NoError(t, err)
	require.Equal(t, sample.Package, b.Package)
	require.Equal(t, sample.CSV, b.CSV.Name)
}

func TestRejectsSourcesThatAreNotBundles(t *testing.T) {
	two := t.TempDir()
	for _, version := range []string{"1", "2"} {
		require.NoError(t, os.CopyFS(filepath.Join(two, version), sample.FS()))
	}
	noMetadata := sampleDir(t)
	require.NoError(t, os.RemoveAll(filepath.Join(noMetadata, "metadata")))
	broken := sampleDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(broken, "manifests", "x.yaml"), []byte("kind: ["), 0o600))
	file := filepath.Join(broken, "manifests", "x.yaml")
	for name, row := range map[string]struct{ arg, want string }{
		"missing":                        {filepath.Join(two, "none"), "no such directory, and not an image"},
		"a file":                         {file, "not a directory"},
		"a directory of several bundles": {two, "not a bundle: it has no manifests"},
		"no metadata":                    {noMetadata, "not a bundle: it has no metadata/annotations.yaml"},
		"malformed":                      {broken, "x.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&Flags{}).Load(t.Context(), row.arg)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, row.arg)
		})
	}
}

func TestParsesAccounts(t *testing.T) {
	a, err := ParseAccount("team-a/installer.x")
	require.NoError(t, err)
	require.Equal(t, "team-a/installer.x", a.String())
	for _, text := range []string{"", "installer", "/installer", "team-a/", "team-a/a/b", "Team/a", "team-a/A"} {
		_, err := ParseAccount(text)
		require.ErrorContains(t, err, "account", text)
	}
}

func TestDeterminesTheScopeOfEachInstallMode(t *testing.T) {
	const own, single, multi, all = operatorsv1alpha1.InstallModeTypeOwnNamespace, operatorsv1alpha1.InstallModeTypeSingleNamespace,
		operatorsv1alpha1.InstallModeTypeMultiNamespace, operatorsv1alpha1.InstallModeTypeAllNamespaces
	type modes = []operatorsv1alpha1.InstallModeType
	everything := modes{own, single, multi, all}
	for name, row := range map[string]struct {
		supported modes
		mode      operatorsv1alpha1.InstallModeType
		targets   []string
		want      []string
		wantErr   string
	}{
		"the narrowest mode":                       {everything, "", nil, []string{"ns"}, ""},
		"the narrowest mode without OwnNamespace":  {modes{single, all}, "", nil, []string{""}, ""},
		"ambiguous without targets":                {modes{single, multi}, "", nil, nil, "the bundle supports SingleNamespace, MultiNamespace: set the namespaces"},
		"no install mode":                          {nil, "", nil, nil, "supports no install mode"},
		"one target":                               {everything, "", []string{"b"}, []string{"b"}, ""},
		"several targets, sorted":                  {everything, "", []string{"b", "a", "b"}, []string{"a", "b"}, ""},
		"the bundle's own namespace as the target": {everything, "", []string{"ns"}, []string{"ns"}, ""},
		"own":                                    {everything, own, nil, []string{"ns"}, ""},
		"OwnNamespace with another target":       {everything, own, []string{"b"}, nil, `targets only namespace "ns"`},
		"single":                                 {everything, single, []string{"b"}, []string{"b"}, ""},
		"SingleNamespace without a target":       {everything, single, nil, nil, "must be one namespace other than"},
		"SingleNamespace with its own namespace": {everything, single, []string{"ns"}, nil, "must be one namespace other than"},
		"MultiNamespace with its own namespace":  {everything, multi, []string{"b", "ns"}, []string{"b", "ns"}, ""},
		"MultiNamespace with one target":         {everything, multi, []string{"b"}, nil, "at least two"},
		"all":                                    {everything, all, nil, []string{""}, ""},
		"AllNamespaces with targets":             {everything, all, []string{"b"}, nil, "does not allow --target-namespaces"},
		"not supported":                          {modes{all}, own, nil, nil, "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace; it supports AllNamespaces"},
		"the bundle's own namespace as a target, unsupported": {modes{multi}, multi, []string{"b", "ns"}, nil, "OwnNamespace InstallModeType not supported"},
		"an unknown mode":             {everything, "Some", nil, nil, `unknown install mode "Some"`},
		"an invalid target namespace": {everything, "", []string{"B"}, nil, `target namespace "B"`},
		"an empty target":             {everything, "", []string{""}, nil, `target namespace ""`},
		"a duplicate mode in the CSV": {modes{own, own}, "", nil, nil, "install modes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Bundle{Package: "p", Bundle: &bundle.Bundle{CSV: &operatorsv1alpha1.ClusterServiceVersion{}}}
			for _, m := range row.supported {
				b.CSV.Spec.InstallModes = append(b.CSV.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: m, Supported: true})
			}
			f := Flags{Mode: string(row.mode), Targets: row.targets}
			scope, err := f.Scope(b, "ns")
			if row.wantErr != "" {
				require.ErrorContains(t, err, row.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, scope.Targets)
			require.Equal(t, "ns", scope.Namespace)
			require.Equal(t, "p", scope.Package)
		})
	}
}
