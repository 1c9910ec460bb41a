package build

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestOnlyDeclaredConversionsAreSet(t *testing.T) {
	none := map[string]any{"strategy": "None"}
	for name, tc := range map[string]struct{ ships, want any }{
		"nothing":     {nil, nil},
		"none":        {none, none},
		"a URL":       {map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"url": "https://127.0.0.1:1/"}}}, nil},
		"a Service":   {map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"service": map[string]any{"namespace": "ns", "name": "n"}}}}, nil},
		"a mixture":   {map[string]any{"strategy": "None", "webhook": map[string]any{}}, nil},
		"no strategy": {map[string]any{}, nil},
		"not a map":   {[]any{"Webhook"}, nil},
	} {
		crd := &unstructured.Unstructured{Object: map[string]any{"kind": "CustomResourceDefinition", "spec": map[string]any{}}}
		if tc.ships != nil {
			crd.Object["spec"] = map[string]any{"conversion": tc.ships}
		}
		require.NoError(t, convert([]*unstructured.Unstructured{crd}, nil), name)
		got, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "spec", "conversion")
		require.Equal(t, tc.want, got, name)
	}
}
