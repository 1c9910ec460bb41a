package deployment_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/proofs"
)

// Kubernetes reports in the Deployment's status that admission refuses a Pod; the text for the ClusterServiceVersion repeats why.
func TestSaysWhyAdmissionRefusesPods(t *testing.T) {
	c, err := client.New(controlplane.Shared(t).Config(), client.Options{Scheme: proofs.Scheme()})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	require.NoError(t, c.Create(t.Context(), ns))
	labels := map[string]string{"app": "op"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "op"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.HostNetwork = true
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "one"}}
	require.NoError(t, c.Create(t.Context(), d))
	(&env.Tenant{T: t}).Eventually(func(a *assert.CollectT) {
		assert.NoError(a, c.Get(t.Context(), client.ObjectKeyFromObject(d), d))
		got := deployment.Status(d, d.Spec.Replicas)
		assert.False(a, got.Ready)
		assert.Contains(a, got.Text, `deployment "op" not available: `)
		assert.Contains(a, got.Text, "; its Pods cannot be created: pods ")
		assert.Contains(a, got.Text, `violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`)
	})
	require.NoError(t, c.Delete(t.Context(), d))
}
