package extension

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// pullSecret is the name of the Secret that the manifests mount, and pullSecretFile is its file, relative to the working
	// directory of a program in this cluster.
	pullSecret     = "remit-extension-pull-secret"
	pullSecretFile = "etc/remit/pull-secret/.dockerconfigjson"
	password       = "the-password-of-the-registry"
)

// lock makes the private registry require the password.
func lock(private *registry.Server) {
	private.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if _, got, ok := r.BasicAuth(); ok && got == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
}

// The program pulls images from a private registry with the Secret that is mounted in its Pod, even if the Secret was invalid
// at first. Neither the objects that it writes nor its logs contain the credentials.
func TestPullsWithTheMountedSecret(t *testing.T) {
	t.Parallel()
	made, err := registry.Bundle(sample.FS())
	require.NoError(t, err)
	bundle, _, err := private.Push("bundle:v1", made)
	require.NoError(t, err)
	content := strings.ReplaceAll(packages("private"), "private.v1", sample.CSV)
	made, err = registry.Catalog(fstest.MapFS{"catalog.json": {Data: []byte(strings.ReplaceAll(content, "example.com/private:v1", bundle))}})
	require.NoError(t, err)
	ref, _, err := private.Push("catalog:v1", made)
	require.NoError(t, err)
	lock(private)
	k := create(t, "private", ref)
	refused := func(why string) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			if assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(k), k)) {
				if got := meta.FindStatusCondition(k.Status.Conditions, olmv1.TypeProgressing); assert.NotNil(c, got) {
					assert.Equal(c, olmv1.ReasonRetrying, got.Reason)
					assert.Contains(c, got.Message, why)
				}
			}
		})
	}
	refused("401")
	auth := base64.StdEncoding.EncodeToString([]byte("remit:" + password))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Home, Name: pullSecret}, Type: corev1.SecretTypeDockerConfigJson}
	with := func(auth string) map[string][]byte {
		return map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, private.Host, auth)}
	}
	secret.Data = with("the " + password)
	require.NoError(t, cluster.Client.Create(t.Context(), secret))
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), secret) })
	refused("has an invalid entry for this registry")
	secret.Data = with(auth)
	require.NoError(t, cluster.Client.Update(t.Context(), secret))
	await(t, "private", olmv1.ReasonAvailable)

	require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "private"}}))
	s := &scene{&env.Extension{T: t, Cluster: cluster, Name: "private"}, t}
	s.install("")
	eventually(t, func(c *assert.CollectT) {
		assert.Contains(c, s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled), "greetings", "the bundle was not read")
	})
	s.hides(password, auth)
}

// hides checks that neither the objects of the scene nor the logs of the program contain these texts.
func (s *scene) hides(texts ...string) {
	s.t.Helper()
	k := &olmv1.ClusterCatalog{}
	require.NoError(s.t, cluster.Client.Get(s.t.Context(), client.ObjectKey{Name: s.Name}, k))
	written, err := json.Marshal([]any{k, s.Get()})
	require.NoError(s.t, err)
	api, err := kubernetes.NewForConfig(cluster.Config())
	require.NoError(s.t, err)
	pods := &corev1.PodList{}
	require.NoError(s.t, cluster.Client.List(s.t.Context(), pods, client.InNamespace(cluster.Home), client.MatchingLabels{"app.kubernetes.io/name": "remit-extension"}))
	require.NotEmpty(s.t, pods.Items)
	for i := range pods.Items {
		log, err := api.CoreV1().Pods(cluster.Home).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{}).DoRaw(s.t.Context())
		require.NoError(s.t, err)
		require.NotEmpty(s.t, log)
		written = append(written, log...)
	}
	for _, text := range texts {
		require.NotContains(s.t, string(written), text)
	}
}
