package catalogsource

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDecodeSurvivesEveryUpdateStrategy(t *testing.T) {
	for name, tt := range map[string]struct {
		strategy any
		poll     bool
	}{
		"empty (the type's own decoder panics)": {map[string]any{}, false},
		"with a null poll":                      {map[string]any{"registryPoll": nil}, false},
		"null":                                  {nil, false},
		"with an invalid interval":              {map[string]any{"registryPoll": map[string]any{"interval": "x"}}, true},
		"with an interval":                      {map[string]any{"registryPoll": map[string]any{"interval": "1m"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := newObject()
			u.Object["spec"] = map[string]any{"sourceType": "grpc", "image": "i", "updateStrategy": tt.strategy}
			before := u.DeepCopy()
			cs, err := decode(u)
			require.NoError(t, err)
			require.Equal(t, tt.poll, cs.Poll())
			require.Equal(t, before, u, "the cached object is not modified")
		})
	}
}

func TestWithStatusHasNoNulls(t *testing.T) {
	u := newObject()
	u.Object["spec"] = map[string]any{"sourceType": "grpc", "address": "a:1"}
	cs, err := decode(u)
	require.NoError(t, err)
	out, err := withStatus(u, desired(cs, observation{state: "CONNECTING", address: "a:1"}, now))
	require.NoError(t, err)
	connection, _, err := unstructured.NestedMap(out.Object, "status", "connectionState")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"address": "a:1", "lastObservedState": "CONNECTING"}, connection)
}
