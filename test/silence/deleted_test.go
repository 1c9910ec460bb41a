package silence

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/env/blockage"
)

// TestADeletedNamespaceIsNotRetried deletes the namespaces of installs that wait, each for a different reason, of a catalog whose
// registry cannot be reached, and of one that is not valid. Then, between two installs in other namespaces, there may be neither a
// request for a deleted namespace, or as its account, nor an error about it in the logs.
func TestADeletedNamespaceIsNotRetried(t *testing.T) {
	var tenants []*env.Tenant
	for _, b := range blockage.All() {
		tn := cluster.Tenant(t)
		b.Block(tn)
		tenants = append(tenants, tn)
	}
	tenants = append(tenants, unreachable(t), invalid(t))
	deleteAll(t, tenants)
	install(t)
	from, err := cluster.AuditedUntilNow(t.Context(), 0)
	require.NoError(t, err)
	before := logs(t)
	wait(t, silence)
	install(t)

	var sent []string
	_, _, err = cluster.AuditedFrom(t.Context(), from, func(e audit.Event) bool {
		for _, tn := range tenants {
			isAbout := cluster.ControllerIdentities().Is(e) && e.Object != nil && namespaceOf(*e.Object) == tn.Namespace
			if isAbout || e.User.Username == scoped.Username(tn.Account.Namespace, tn.Account.Name) {
				sent = append(sent, fmt.Sprintf("%s %s %s", e.UserAgent, e.Verb, e.RequestURI))
			}
		}
		return false
	})
	require.NoError(t, err)
	assert.Empty(t, sent, "%d requests:\n%s", len(sent), strings.Join(sent, "\n"))
	for pod, log := range logs(t) {
		for line := range strings.Lines(strings.TrimPrefix(log, before[pod])) {
			for _, tn := range tenants {
				assert.False(t, strings.Contains(line, `"level":"error"`) && strings.Contains(line, tn.Namespace), line)
			}
			assert.NotContains(t, line, "the client connection is closing")
		}
	}
}

// deleteAll deletes the namespaces of tenants, and waits until they and their Operators, which are cluster-scoped, are gone.
func deleteAll(t *testing.T, tenants []*env.Tenant) {
	t.Helper()
	for _, tn := range tenants {
		require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tn.Namespace}}))
	}
	for _, tn := range tenants {
		tn.Eventually(func(c *assert.CollectT) {
			err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: tn.Namespace}, &corev1.Namespace{})
			assert.True(c, apierrors.IsNotFound(err), "%s: %v", tn.Namespace, err)
			operators := &operatorsv1.OperatorList{}
			assert.NoError(c, cluster.Client.List(t.Context(), operators))
			for i := range operators.Items {
				assert.NotEqual(c, tn.Namespace, namespaceOf(audit.Object{Resource: "operators", Name: operators.Items[i].Name}))
			}
		})
	}
}

// install installs the sample operator in a new namespace.
func install(t *testing.T) {
	t.Helper()
	tn := cluster.Tenant(t)
	rbac := blockage.Findings()[0]
	rbac.Block(tn)()
	tn.Installed(rbac.Installs)
}

// unreachable returns a tenant with a CatalogSource whose registry does not answer.
func unreachable(t *testing.T) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Create(&corev1.Service{ObjectMeta: tn.Meta("registry"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 50051}}}})
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"), Spec: operatorsv1alpha1.CatalogSourceSpec{
		SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: "registry." + tn.Namespace + ".svc:50051",
	}})
	return awaitCatalog(tn)
}

// invalid returns a tenant with a CatalogSource whose content is not valid, and a Subscription to it.
func invalid(t *testing.T) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"}})
	tn.Group(env.AccountName, tn.Namespace)
	tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("content"), Data: map[string]string{"catalog.yaml": "schema: olm.package\nname: [\n"}})
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"), Spec: operatorsv1alpha1.CatalogSourceSpec{
		SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content",
	}})
	tn.Subscribe("catalog", "a", "stable")
	return awaitCatalog(tn)
}

// awaitCatalog waits until the status of the CatalogSource has been written.
func awaitCatalog(tn *env.Tenant) *env.Tenant {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		assert.True(c, cs.Status.Message != "" || cs.Status.GRPCConnectionState != nil)
	})
	return tn
}

// logs returns the logs of Remit's Pods.
func logs(t *testing.T) map[string]string {
	t.Helper()
	api, err := kubernetes.NewForConfig(cluster.Config())
	require.NoError(t, err)
	pods := &corev1.PodList{}
	require.NoError(t, cluster.Client.List(t.Context(), pods, client.InNamespace(cluster.Home)))
	out := map[string]string{}
	for i := range pods.Items {
		log, err := api.CoreV1().Pods(cluster.Home).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		require.NoError(t, err)
		out[pods.Items[i].Name] = string(log)
	}
	return out
}
