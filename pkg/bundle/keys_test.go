package bundle

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestHarmless(t *testing.T) {
	for _, row := range []struct {
		kind, key string
		harmless  bool
	}{
		{"Service", "app.kubernetes.io/name", true},
		{"Service", "example.com/anything", true},
		{"Service", "control-plane", true},
		{"Service", "notk8s.io/x", true},
		{"CustomResourceDefinition", "controller-gen.kubebuilder.io/version", true},
		{"CustomResourceDefinition", "api-approved.kubernetes.io", true},
		{"ClusterRole", "api-approved.kubernetes.io", false},
		{"CustomResourceDefinition", "cert-manager.io/inject-ca-from", false},
		{"CustomResourceDefinition", "cert-manager.io/inject-apiserver-ca", false},
		{"ClusterServiceVersion", "cert-manager.io/inject-ca-from", true},
		{"ClusterServiceVersion", "cert-manager.io/inject-apiserver-ca", false},
		{"ClusterRole", "rbac.authorization.k8s.io/aggregate-to-edit", false},
		{"ClusterRole", "RBAC.authorization.K8S.io/aggregate-to-edit", false},
		{"ClusterRole", "rbac.authorization.kubernetes.io/autoupdate", false},
		{"ClusterRole", "olm.opgroup.permissions/aggregate-to-7b2c0f0ce5f4a1d2-admin", false},
		{"ClusterRole", "OLM.opgroup.permissions/aggregate-to-7b2c0f0ce5f4a1d2-admin", false},
		{"ServiceAccount", "kubernetes.io/enforce-mountable-secrets", false},
		{"Secret", "kubernetes.io/service-account.name", true},
		{"ConfigMap", "k8s.io/x", false},
		{"Service", "service.kubernetes.io/topology-mode", false},
		{"Service", "service.beta.openshift.io/serving-cert-secret-name", false},
		{"Service", "olm.catalogSource", false},
		{"Service", "catalogsource.operators.coreos.com/update", false},
		{"Service", "operators.coreos.com/a.b", false},
		{"Service", "x.remit.dev/y", false},
		{"ClusterServiceVersion", "olm.skipRange", true},
		{"ClusterServiceVersion", "olm.anything", false},
		{"ClusterServiceVersion", "pod-security.kubernetes.io/enforce", false},
		{"ClusterServiceVersion", "operatorframework.io/suggested-namespace", true},
		{"Pod", "container.apparmor.security.beta.kubernetes.io/operator", false},
		{"Pod", "kubectl.kubernetes.io/default-container", true},
	} {
		require.Equal(t, row.harmless, Harmless(row.kind, row.key), "%s on a %s", row.key, row.kind)
	}
}

func TestForDisplay(t *testing.T) {
	for key, want := range map[string]bool{
		"team": true, "operatorframework.io/x": true, "features.operators.openshift.io/x": true,
		"sidecar.istio.io/inject": false, "x.operatorframework.io/x": false, "kubernetes.io/x": false, "/x": false,
	} {
		require.Equal(t, want, ForDisplay(key), key)
	}
}

func TestConfineReturnsRemovedKeys(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": "ClusterRole"}}
	obj.SetLabels(map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true", "a": "b"})
	obj.SetAnnotations(map[string]string{"kubernetes.io/x": "y"})
	require.Equal(t, []string{"kubernetes.io/x", "rbac.authorization.k8s.io/aggregate-to-edit"}, Confine(obj))
	require.Equal(t, map[string]string{"a": "b"}, obj.GetLabels())
	require.Empty(t, obj.GetAnnotations())
	require.Empty(t, Confine(obj))
}

func TestNamesOmittedKeysInOneLine(t *testing.T) {
	require.Equal(t, "Role t1/x: omitted labels and annotations that control other programs in the cluster: a --- kind: Role k8s.io/b",
		LeftOut("Role t1/x", []string{"a\n---\nkind: Role\nk8s.io/b"}))
}
