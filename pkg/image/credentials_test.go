package image

import (
	"encoding/json"
	"fmt"
	"runtime"
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
	require.ErrorContains(t, c.Add(secret(2, 0)), `with Secret "pull", the pull secrets have more than 1000 entries`)
	require.Len(t, c.entries, maxEntries-1)
	require.NoError(t, c.Add(secret(1, 0)))

	c = &Credentials{}
	require.NoError(t, c.Add(secret(1, maxConfigBytes-1_000)))
	require.NoError(t, c.Add(secret(1, maxConfigBytes-1_000)))
	require.ErrorContains(t, c.Add(secret(1, 2_000)), "bytes of credentials, but at most 524288 are allowed")
	require.NoError(t, c.Add(secret(1, 0)), "a smaller one fits")
	require.Len(t, c.entries, 3)
}

// 256 KiB can contain 30,000 entries, which take 10 MB.
func TestEntriesOfPullSecretsAreCountedBeforeTheyAreDecoded(t *testing.T) {
	list := strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(&list, `,"%x":{}`, i)
	}
	for kind, data := range map[corev1.SecretType]map[string][]byte{
		corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey: []byte(`{"auths":{` + list.String()[1:] + `}}`)},
		corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey: []byte(`{` + list.String()[1:] + `}`)},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: kind, Data: data}
		require.Less(t, SizeOf(secret), maxConfigBytes)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.ErrorContains(t, (&Credentials{}).Add(secret), "more than 1000 entries")
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3<<20))
		for _, wrong := range []string{"1", `{"auths":[]}`, `{"a":1}`[:5], `[]`} {
			for key := range data {
				secret.Data = map[string][]byte{key: []byte(wrong)}
			}
			require.ErrorContains(t, (&Credentials{}).Add(secret), "does not match its type", wrong)
		}
	}
}
