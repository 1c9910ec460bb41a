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

// A tenant's pull secret is read as the account, which has to hold that; one of Remit's own namespace as Remit. A grant
// has a pull that failed for the lack of it tried again.
func TestPullSecretsAreReadAsWhoMayReadThem(t *testing.T) {
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
	asks := func(namespace, name string) {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		tn.Create(&corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: login}})
		cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: meta,
			Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref, Secrets: []string{name}}}
		tn.Create(cs)
		t.Cleanup(func() { _ = cluster.Client.Delete(context.WithoutCancel(t.Context()), cs) })
	}
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"held"}, Verbs: []string{"get"}})
	asks(tn.Namespace, "held")
	asks(tn.Namespace, "lacked")
	asks(names.DefaultNamespace, tn.Namespace)
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
		says(c, tn.Namespace, "held", "READY")
		says(c, names.DefaultNamespace, tn.Namespace, "READY")
		says(c, tn.Namespace, "lacked", "TRANSIENT_FAILURE", "401", `"lacked" is forbidden`, "serviceaccount:"+tn.Namespace+":"+env.AccountName)
	})
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"lacked"}, Verbs: []string{"get"}})
	granted := time.Now()
	tn.Eventually(func(c *assert.CollectT) { says(c, tn.Namespace, "lacked", "READY") })
	t.Logf("from the grant to the content: %s", time.Since(granted))
}
