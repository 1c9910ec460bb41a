package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// Remit reads a tenant's pull secret as the account, which needs permission to get it, and one in the global catalog
// namespace as the controller identity. A failed pull is retried when the permission is granted and, if the account may
// watch the Secret, when the Secret changes.
func TestReadsPullSecretsAsTheAccount(t *testing.T) {
	bounded(t)
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	content, err := env.SampleFBC()
	require.NoError(t, err)
	made, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: []byte(content)}})
	require.NoError(t, err)
	ref, _, err := images.Push(tn.Namespace+":v1", made)
	require.NoError(t, err)
	images.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); !strings.Contains(r.URL.Path, "/"+tn.Namespace+"/") && r.URL.Path != "/v2/" || user == tn.Namespace && password == "p" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	t.Cleanup(func() { images.Answer(nil) })
	login := fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, images.Host, base64.StdEncoding.EncodeToString([]byte(tn.Namespace+":p")))
	secret := func(namespace, name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: login}}
	}
	asks := func(namespace, name string) {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: meta,
			Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref, Secrets: []string{name}}}
		tn.Create(cs)
		t.Cleanup(func() { _ = cluster.Client.Delete(context.WithoutCancel(t.Context()), cs) })
	}
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"granted"}, Verbs: []string{"get"}})
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"late", "wrong"}, Verbs: []string{"get", "watch"}})
	wrong := secret(tn.Namespace, "wrong")
	wrong.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{}}`)
	for _, s := range []*corev1.Secret{secret(tn.Namespace, "granted"), secret(tn.Namespace, "denied"), secret(names.DefaultCatalogNamespace, tn.Namespace), wrong} {
		tn.Create(s)
		asks(s.Namespace, s.Name)
	}
	asks(tn.Namespace, "late")
	says := func(c *assert.CollectT, namespace, name, state string, words ...string) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cs))
		if assert.NotNil(c, cs.Status.GRPCConnectionState) {
			assert.Equal(c, state, cs.Status.GRPCConnectionState.LastObservedState, cs.Status.Message)
		}
		for _, w := range words {
			assert.Contains(c, cs.Status.Message, w)
		}
	}
	tn.Eventually(func(c *assert.CollectT) {
		says(c, tn.Namespace, "granted", "READY")
		says(c, names.DefaultCatalogNamespace, tn.Namespace, "READY")
		says(c, tn.Namespace, "denied", "TRANSIENT_FAILURE", "401", `"denied" is forbidden`, "serviceaccount:"+tn.Namespace+":"+env.AccountName)
	})
	tn.Eventually(func(c *assert.CollectT) {
		says(c, tn.Namespace, "late", "TRANSIENT_FAILURE", `"late" not found`)
		says(c, tn.Namespace, "wrong", "TRANSIENT_FAILURE", "401")
	})
	begun := time.Now()
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"denied"}, Verbs: []string{"get"}})
	tn.Eventually(func(c *assert.CollectT) { says(c, tn.Namespace, "denied", "READY") })
	t.Logf("from the grant to the content: %s", time.Since(begun))
	begun = time.Now()
	tn.Create(secret(tn.Namespace, "late"))
	wrong.Data = secret(tn.Namespace, "wrong").Data
	require.NoError(t, cluster.Client.Update(t.Context(), wrong))
	tn.Eventually(func(c *assert.CollectT) {
		says(c, tn.Namespace, "late", "READY")
		says(c, tn.Namespace, "wrong", "READY")
	})
	t.Logf("from the Secret to the content: %s", time.Since(begun))
}
