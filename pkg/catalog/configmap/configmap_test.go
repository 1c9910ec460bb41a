package configmap

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

const (
	fbcText = `
schema: olm.package
name: a
defaultChannel: stable
---
schema: olm.channel
package: a
name: stable
entries: [{name: a.v1}]
---
schema: olm.bundle
package: a
name: a.v1
`
	legacyCSVs = `
- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata: {name: a.v2}
  spec:
    version: 2.0.0
    replaces: a.v1
    customresourcedefinitions:
      owned: [{name: as.example.com, version: v1, kind: A}]
- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata: {name: a.v1}
  spec: {version: 1.0.0, replaces: a.v0}
`
	legacyCRDs = `
- kind: CustomResourceDefinition
  metadata: {name: as.example.com}
  spec: {group: example.com, names: {kind: A}, versions: [{name: v1, served: true}]}
- kind: CustomResourceDefinition
  metadata: {name: bs.example.com}
`
	legacyPackages = `
- packageName: a
  defaultChannel: stable
  channels:
  - {name: stable, currentCSV: a.v2}
  - {name: old, currentCSV: a.v1}
`
)

func TestLoadReadsFileBasedContentInAnyKey(t *testing.T) {
	fromData, err := Load(t.Context(), &corev1.ConfigMap{Data: map[string]string{"x.yml": fbcText, "notes": "ignored"}}, fbc.Loader{Limits: catalog.TenantDecoding()})
	require.NoError(t, err)
	fromBinary, err := Load(t.Context(), &corev1.ConfigMap{BinaryData: map[string][]byte{"y.yaml": []byte(fbcText)}}, fbc.Loader{Limits: catalog.TenantDecoding()})
	require.NoError(t, err)
	require.Equal(t, fromData.Digest, fromBinary.Digest)
	require.Contains(t, fromData.Packages, "a")
}

func TestLoadReadsTheLegacyKeys(t *testing.T) {
	snap, err := Load(t.Context(), &corev1.ConfigMap{Data: map[string]string{
		KeyCSVs: legacyCSVs, KeyCRDs: legacyCRDs, KeyPackages: legacyPackages,
	}}, fbc.Loader{Limits: catalog.TenantDecoding()})
	require.NoError(t, err)

	pkg := snap.Packages["a"]
	require.Equal(t, []string{"old", "stable"}, pkg.ChannelNames())
	require.Equal(t, "stable", pkg.DefaultChannel)
	head, err := pkg.Channels["stable"].Head()
	require.NoError(t, err)
	require.Equal(t, "a.v2", head.Name)
	require.Len(t, pkg.Channels["stable"].Entries, 2, "the chain ends where a replaced version is missing")
	require.Equal(t, "2.0.0", pkg.Bundles["a.v2"].Version)

	content, err := snap.Reader.Content(t.Context(), "a", "stable", "a.v2")
	require.NoError(t, err)
	require.Len(t, content.Manifests, 2, "only the CSV and the CRD that it owns")
}

func TestRefusesMalformedConfigMaps(t *testing.T) {
	for _, tt := range []struct {
		name string
		data map[string]string
		want string
	}{
		{"without a key of either format", map[string]string{"a": "b"}, "contains no catalog"},
		{"with both formats", map[string]string{"a.yaml": fbcText, KeyPackages: "[]"}, "use only one format"},
		{"malformed file-based content", map[string]string{"a.yaml": "["}, `file "a.yaml"`},
		{"malformed legacy content", map[string]string{KeyCSVs: "a: b"}, `key "clusterServiceVersions": value must be a list`},
		{"without packages", map[string]string{KeyCSVs: legacyCSVs}, "the catalog is empty"},
		{"with a channel whose CSV is missing", map[string]string{KeyPackages: legacyPackages},
			`key "packages", package "a": channel "stable": ClusterServiceVersion "a.v2" not found`},
		{"with a duplicate CSV", map[string]string{KeyCSVs: legacyCSVs + legacyCSVs[1:]}, `duplicate ClusterServiceVersion "a.v2"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(t.Context(), &corev1.ConfigMap{Data: tt.data}, fbc.Loader{Limits: catalog.TenantDecoding()})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestABrokenPackageDoesNotAffectOthers(t *testing.T) {
	for name, row := range map[string]struct{ broken, want string }{
		"a package without channels":            {"- {packageName: b}\n", `package "b": package has no channels`},
		"several channels, none the default":    {"- {packageName: b, channels: [{name: fast, currentCSV: a.v1}, {name: slow, currentCSV: a.v2}]}\n", `package "b": default channel "" does not exist`},
		"a default channel that does not exist": {"- {packageName: b, defaultChannel: z, channels: [{name: fast, currentCSV: a.v1}]}\n", `package "b": default channel "z" does not exist`},
		"a channel of another type":             {"- {packageName: b, channels: [{name: yes, currentCSV: a.v1}]}\n", `package "b": json: cannot unmarshal bool`},
		"a head that does not exist":            {"- {packageName: b, channels: [{name: fast, currentCSV: b.v1}]}\n", `ClusterServiceVersion "b.v1" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string]string{KeyCSVs: legacyCSVs, KeyCRDs: legacyCRDs, KeyPackages: legacyPackages}
			alone, err := Load(t.Context(), &corev1.ConfigMap{Data: data}, fbc.Loader{Limits: catalog.TenantDecoding()})
			require.NoError(t, err)
			data[KeyPackages] = legacyPackages + row.broken
			snap, err := Load(t.Context(), &corev1.ConfigMap{Data: data}, fbc.Loader{Limits: catalog.TenantDecoding()})
			require.NoError(t, err)
			require.Equal(t, alone.Digest, snap.Digest)
			require.Equal(t, []string{"b"}, snap.Excluded)
			require.Len(t, snap.Warnings, 1)
			require.Contains(t, snap.Warnings[0], row.want)
		})
	}
}

func TestMergesARepeatedPackage(t *testing.T) {
	load := func(packages string) (*catalog.Snapshot, error) {
		return Load(t.Context(), &corev1.ConfigMap{Data: map[string]string{KeyCSVs: legacyCSVs, KeyCRDs: legacyCRDs, KeyPackages: packages}},
			fbc.Loader{Limits: catalog.TenantDecoding()})
	}
	want, err := load("- {packageName: a, defaultChannel: fast, channels: [{name: stable, currentCSV: a.v1}, {name: fast, currentCSV: a.v2}]}\n")
	require.NoError(t, err)
	for name, packages := range map[string]string{
		"one channel each":   "- {packageName: a, channels: [{name: stable, currentCSV: a.v1}]}\n- {packageName: a, channels: [{name: fast, currentCSV: a.v2}]}\n",
		"a repeated channel": "- {packageName: a, defaultChannel: fast, channels: [{name: stable, currentCSV: a.v1}, {name: fast, currentCSV: a.v2}]}\n- {packageName: a, defaultChannel: fast, channels: [{name: stable, currentCSV: a.v1}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(packages)
			require.NoError(t, err)
			require.Empty(t, got.Warnings)
			require.Equal(t, want.Digest, got.Digest)
		})
	}
	_, err = load("- {packageName: a, channels: [{name: stable, currentCSV: a.v1}]}\n- {packageName: a, channels: [{name: stable, currentCSV: a.v2}]}\n")
	require.ErrorContains(t, err, `package "a": channel "stable" has two different heads, "a.v1" and "a.v2"`)
	_, err = load("- {packageName: a, channels: [{name: stable, currentCSV: a.v1}]}\n- {packageName: a, channels: [{name: yes, currentCSV: a.v2}]}\n")
	require.ErrorContains(t, err, "cannot unmarshal bool", "a package is not offered incompletely")
}

func TestRefusesAReplacesCycle(t *testing.T) {
	csvs := `
- {kind: ClusterServiceVersion, metadata: {name: a.v1}, spec: {version: 1.0.0, replaces: a.v2}}
- {kind: ClusterServiceVersion, metadata: {name: a.v2}, spec: {version: 2.0.0, replaces: a.v1}}
`
	snap, err := Load(t.Context(), &corev1.ConfigMap{Data: map[string]string{KeyCSVs: csvs, KeyPackages: legacyPackages}}, fbc.Loader{Limits: catalog.TenantDecoding()})
	require.NoError(t, err)
	_, err = snap.Packages["a"].Channels["stable"].Head()
	require.ErrorContains(t, err, "no head")
}

func FuzzLoadLegacy(f *testing.F) {
	f.Add(legacyCSVs, legacyCRDs, legacyPackages)
	f.Fuzz(func(t *testing.T, csvs, crds, packages string) {
		snap, err := Load(t.Context(), &corev1.ConfigMap{Data: map[string]string{KeyCSVs: csvs, KeyCRDs: crds, KeyPackages: packages}}, fbc.Loader{Limits: catalog.TenantDecoding()})
		if err == nil {
			require.NotEmpty(t, snap.Packages)
		}
	})
}
