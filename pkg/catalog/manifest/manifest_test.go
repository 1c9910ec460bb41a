package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// objects returns the objects in a manifest.
func objects(t *testing.T, text string) (out [][]byte) {
	t.Helper()
	_, err := (&catalog.Manifests{Aliases: 0}).ReadObjects(t.Context(), []byte(text), func(object []byte) error {
		out = append(out, object)
		return nil
	})
	require.NoError(t, err)
	return out
}

func TestDescribeRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no CSV":               {`{"kind":"Secret"}`, "exactly one ClusterServiceVersion, but has 0"},
		"two CSVs":             {"kind: ClusterServiceVersion\n---\nkind: ClusterServiceVersion\nspec: {}\n", "has 2"},
		"a CSV without a name": {`{"kind":"ClusterServiceVersion"}`, "name is empty"},
		"invalid properties": {`{"kind":"ClusterServiceVersion","metadata":{"name":"a","annotations":{"olm.properties":"x"}}}`,
			`ClusterServiceVersion "a": annotation olm.properties`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Describe("p", &catalog.Content{Manifests: objects(t, tt.text)})
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := Describe("p", &catalog.Content{Manifests: [][]byte{[]byte("[1]")}})
	require.ErrorContains(t, err, "manifest 1 is not an object")
}

func TestDescribeIncludesAPIServicesAndExtraProperties(t *testing.T) {
	docs := objects(t, `
kind: ClusterServiceVersion
metadata:
  name: a.v1
  annotations: {olm.properties: '[{"type":"olm.maxOpenShiftVersion","value":"4.20"}]'}
spec:
  version: 1.0.0
  apiservicedefinitions:
    owned: [{group: wardle.example.com, version: v1alpha1, kind: Flunder}]
    required: [{group: metrics.k8s.io, version: v1beta1, kind: PodMetrics}]
`)
	d, err := Describe("a", &catalog.Content{Manifests: docs})
	require.NoError(t, err)
	var got []string
	for _, p := range d.Properties {
		got = append(got, p.Type+" "+string(p.Value))
	}
	require.Equal(t, []string{
		`olm.package {"packageName":"a","version":"1.0.0"}`,
		`olm.gvk {"group":"wardle.example.com","kind":"Flunder","version":"v1alpha1"}`,
		`olm.gvk.required {"group":"metrics.k8s.io","kind":"PodMetrics","version":"v1beta1"}`,
		`olm.maxOpenShiftVersion "4.20"`,
	}, got)
}
