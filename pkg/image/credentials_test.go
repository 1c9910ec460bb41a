package image

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A tenant writes the Secrets, and the credentials are kept as long as a pull takes.
func TestPullSecretsAreLimited(t *testing.T) {
	secret := func(entries, fill int) *corev1.Secret {
		auths := map[string]authn.AuthConfig{}
		for i := range entries {
			auths[fmt.Sprintf("r%d.example.com", i)] = authn.AuthConfig{Username: "u"}
		}
		data, err := json.Marshal(map[string]any{"auths": auths, "fill": strings.Repeat("x", fill)})
		require.NoError(t, err)
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: data}}
	}
	c := &Credentials{}
	require.ErrorContains(t, c.Add(secret(1, maxConfigBytes)), `Secret "pull" contains`)
	require.Empty(t, c.entries)
	require.NoError(t, c.Add(secret(maxEntries-1, 0)))
	require.ErrorContains(t, c.Add(secret(2, 0)), "have 1001 entries, but at most 1000 are allowed")
	require.Len(t, c.entries, maxEntries-1)
	require.NoError(t, c.Add(secret(1, 0)))
}
