package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"YAML documents, without empty ones", "---\n# nothing\n---\na: 1\n---\nb: 2\n", []string{`{"a":1}`, `{"b":2}`}},
		{"JSON", `{"a": [1, 2]}`, []string{`{"a":[1,2]}`}},
		{"an empty file", "", nil},
		{"large numbers without loss", "a: 9007199254740993", []string{`{"a":9007199254740993}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			docs, err := Split([]byte(tt.text))
			require.NoError(t, err)
			var got []string
			for _, d := range docs {
				got = append(got, string(d))
			}
			require.Equal(t, tt.want, got)
		})
	}
	_, err := Split([]byte("a: 1\n---\nb: ["))
	require.ErrorContains(t, err, "document 2")
}

func TestDescribeRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no CSV":                    {`{"kind":"Secret"}`, "exactly one ClusterServiceVersion, but has 0"},
		"two CSVs":                  {"kind: ClusterServiceVersion\n---\nkind: ClusterServiceVersion\nspec: {}\n", "has 2"},
		"a CSV without a name":      {`{"kind":"ClusterServiceVersion"}`, "name is empty"},
		"a manifest that is a list": {`[1]`, "manifest 1 is not an object"},
		"invalid properties": {`{"kind":"ClusterServiceVersion","metadata":{"name":"a","annotations":{"olm.properties":"x"}}}`,
			`ClusterServiceVersion "a": annotation olm.properties`},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := Split([]byte(tt.text))
			require.NoError(t, err)
			_, err = Describe("p", &catalog.Content{Manifests: docs})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestDescribeIncludesAPIServicesAndExtraProperties(t *testing.T) {
	docs, err := Split([]byte(`
kind: ClusterServiceVersion
metadata:
  name: a.v1
  annotations: {olm.properties: '[{"type":"olm.maxOpenShiftVersion","value":"4.20"}]'}
spec:
  version: 1.0.0
  apiservicedefinitions:
    owned: [{group: wardle.example.com, version: v1alpha1, kind: Flunder}]
    required: [{group: metrics.k8s.io, version: v1beta1, kind: PodMetrics}]
`))
	require.NoError(t, err)
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
