package e2e

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// A catalog image without a file-based catalog has to run as a registry. In a tenant's namespace, it runs as the default
// account, and only after an OperatorGroup uses that account.
func TestRunsATenantsRegistryAsTheDefaultAccount(t *testing.T) {
	compat(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	content, err := env.SampleFBC()
	require.NoError(t, err)
	ref, pinned := cluster.PushRegistry(t, images, tn.Namespace+":v1", content)
	config := &operatorsv1alpha1.GrpcPodConfig{
		NodeSelector: map[string]string{corev1.LabelOSStable: "linux"}, Tolerations: []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}},
		Affinity:          &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}},
		PriorityClassName: ptr.To("system-cluster-critical"), SecurityContextConfig: operatorsv1alpha1.Restricted, MemoryTarget: ptr.To(resource.MustParse("64Mi")),
	}
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"),
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref, GrpcPodConfig: config}})
	doesNotRunForOthers(tn)
	tn.Group(env.AccountName, tn.Namespace)

	pod := registryPod(tn, "")
	require.Equal(t, pinned, pod.Spec.Containers[0].Image)
	require.Contains(t, pod.Spec.Tolerations, config.Tolerations[0])
	require.Equal(t, config.Affinity, pod.Spec.Affinity)
	require.Equal(t, "system-cluster-critical", pod.Spec.PriorityClassName)
	require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot)
	require.Equal(t, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "67108864"}}, pod.Spec.Containers[0].Env)
	require.Empty(t, pod.Spec.Volumes, "no token")
	subscribe(tn)
	tn.Succeeded(bundle.CSV)
	require.NoError(t, cluster.Client.Delete(t.Context(), pod))
	registryPod(tn, pod.UID) // a deleted Pod is replaced
	madeByTheDefaultAccount(tn)
}

// While the digest of an image is unknown, for example because its registry does not respond, the image runs by tag. When the
// digest is known, a Pod that runs it takes over.
func TestRunsARegistryByTagUntilItsDigestIsKnown(t *testing.T) {
	compat(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	content, err := env.SampleFBC()
	require.NoError(t, err)
	ref := images.Host + "/" + tn.Namespace + ":v1"
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"), Spec: operatorsv1alpha1.CatalogSourceSpec{
		SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref,
		GrpcPodConfig: &operatorsv1alpha1.GrpcPodConfig{SecurityContextConfig: operatorsv1alpha1.Restricted, Tolerations: []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}}},
	}})
	tn.Group(env.AccountName, tn.Namespace)
	pods := &corev1.PodList{}
	runs := func(image string) *corev1.Pod {
		tn.Eventually(func(c *assert.CollectT) {
			assert.NoError(c, cluster.Client.List(tn.T.Context(), pods, client.InNamespace(tn.Namespace), client.MatchingLabels{"olm.catalogSource": "catalog"}))
			if assert.Len(c, pods.Items, 1) {
				assert.Equal(c, image, pods.Items[0].Spec.Containers[0].Image)
			}
		})
		return &pods.Items[0]
	}
	pod := runs(ref)
	require.Contains(t, pod.Spec.Tolerations, corev1.Toleration{Key: "infra", Operator: corev1.TolerationOpExists})
	require.EqualValues(t, 1001, *pod.Spec.SecurityContext.RunAsUser)

	_, pinned := cluster.PushRegistry(t, images, tn.Namespace+":v1", content)
	runs(pinned)
	registryPod(tn, pod.UID)
	madeByTheDefaultAccount(tn)
}

// doesNotRunForOthers asserts that nothing runs without an OperatorGroup, and with one that names another account.
func doesNotRunForOthers(tn *env.Tenant) {
	tn.T.Helper()
	says := func(text string) {
		tn.Eventually(func(c *assert.CollectT) {
			cs := &operatorsv1alpha1.CatalogSource{}
			assert.NoError(c, tn.Get("catalog", cs))
			assert.Contains(c, cs.Status.Message, "registries run only as the installation's default account")
			assert.Contains(c, cs.Status.Message, text)
		})
	}
	says("has no OperatorGroup")
	tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta("named")})
	og := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group"), Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "named", TargetNamespaces: []string{tn.Namespace}}}
	tn.Create(og)
	says("OperatorGroup " + tn.Namespace + "/group names ServiceAccount named")
	require.Empty(tn.T, tn.Writes())
	require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), og))
}

// registryPod waits until the catalog is ready and the registry's only Pod is not the previous one.
func registryPod(tn *env.Tenant, before types.UID) *corev1.Pod {
	tn.T.Helper()
	pods := &corev1.PodList{}
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, cluster.Client.List(tn.T.Context(), pods, client.InNamespace(tn.Namespace), client.MatchingLabels{"olm.catalogSource": "catalog"}))
		if assert.Len(c, pods.Items, 1) {
			assert.NotEqual(c, before, pods.Items[0].UID)
		}
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		if assert.NotNil(c, cs.Status.GRPCConnectionState) && assert.NotNil(c, cs.Status.RegistryServiceStatus) {
			assert.Equal(c, "READY", cs.Status.GRPCConnectionState.LastObservedState)
			assert.Equal(c, "catalog", cs.Status.RegistryServiceStatus.ServiceName)
		}
	})
	return &pods.Items[0]
}

// madeByTheDefaultAccount asserts that the registry's objects were created as the default account and not as a controller
// identity.
func madeByTheDefaultAccount(tn *env.Tenant) {
	tn.T.Helper()
	made := map[string]bool{}
	for _, e := range tn.Writes() {
		made[e.Object.Resource] = made[e.Object.Resource] || e.Created() && (e.Object.Name == "catalog" || e.Object.Resource == "pods")
	}
	for _, resource := range []string{"pods", "services", "serviceaccounts"} {
		require.True(tn.T, made[resource], "%s must be created as the default account", resource)
	}
	others, err := cluster.Audited(tn.T.Context(), func(e audit.Event) bool {
		return cluster.ControllerIdentities().Is(e) && e.IsWrite() && e.Object != nil && e.Object.Namespace == tn.Namespace && e.Object.Resource == "pods"
	})
	require.NoError(tn.T, err)
	require.Empty(tn.T, others)
}
