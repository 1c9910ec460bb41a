package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Applying the OLMConfig again keeps what an administrator has configured, because it sets no field.
func TestTheOLMConfigSetsNoField(t *testing.T) {
	objs, err := RenderOLMConfig()
	require.NoError(t, err)
	require.Len(t, objs, 1)
	require.Equal(t, map[string]any{
		"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig",
		"metadata": map[string]any{"name": "cluster", "labels": map[string]any{"app.kubernetes.io/part-of": "remit"}},
	}, objs[0].Object)
}
