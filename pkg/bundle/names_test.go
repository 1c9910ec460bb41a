package bundle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
)

func TestErrorsNameTheFileOrTheObject(t *testing.T) {
	files := func(name, text string) *catalog.Content {
		return &catalog.Content{Manifests: [][]byte{[]byte(csvText), []byte(text)}, Names: []string{"csv.yaml", name}}
	}
	for name, row := range map[string]struct{ text, want string }{
		"malformed":             {"a: [", `manifest "x.yaml": document 1: invalid YAML: `},
		"a kind":                {object("Pod", "metadata: {name: a}"), `manifest "x.yaml": `},
		"a Secret":              {object("Secret", "metadata: {name: a}\ntype: kubernetes.io/service-account-token"), `manifest "x.yaml": Secret "a": `},
		"a rule":                {"kind: Role\nmetadata: {name: a}\nrules: [{apiGroups: ['']}]", `manifest "x.yaml": Role "a": `},
		"a different duplicate": {csvText + "  description: other\n", `manifest "x.yaml": bundle has two different manifests for ClusterServiceVersion.operators.coreos.com op.v1; the other is manifest "csv.yaml"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bundle.ParseContent(t.Context(), files("x.yaml", row.text))
			require.ErrorContains(t, err, row.want)
		})
	}
	_, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(`{"kind": "List", "metadata": {"name": "x"}, "items": []}`)}})
	require.ErrorContains(t, err, `manifest 1 (List "x"): `)
}

func TestAcceptsIdenticalDuplicates(t *testing.T) {
	same := object("ConfigMap", "metadata: {name: a}\ndata: {b: c}")
	b, err := parse(same, `{"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "c"}, "metadata": {"name": "a"}}`, csvText)
	require.NoError(t, err)
	require.Len(t, b.Objects, 1)
	_, err = parse(same, object("ConfigMap", "metadata: {name: a}\ndata: {b: d}"))
	require.ErrorContains(t, err, "two different manifests")
}
