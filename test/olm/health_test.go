package olm

import (
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
)

// twoReplicas sets a CSV's Deployment to two replicas, one of which may be unavailable, with Pods that take so long to become ready
// that a busy machine observes that one is missing.
func twoReplicas(c *csv) {
	spec := &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec
	spec.Replicas = ptr.To(int32(2))
	spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt32(1))}}
	spec.Template.Annotations = map[string]string{"standin.test/start-after": "10s"}
}

// installed returns a tenant whose edited CSV has succeeded.
func installed(t *testing.T, edits ...edit) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, edits...)
	requireSucceeded(tn)
	return tn
}

// phases returns the phases in the CSV's history, oldest first.
func phases(tn *env.Tenant) []string {
	tn.T.Helper()
	got := &csv{}
	require.NoError(tn.T, tn.Get("demo.v1.0.0", got))
	var out []string
	for _, c := range got.Status.Conditions {
		out = append(out, string(c.Phase)+"/"+string(c.Reason))
	}
	return out
}

func pods(tn *env.Tenant) []corev1.Pod {
	tn.T.Helper()
	list := &corev1.PodList{}
	require.NoError(tn.T, cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	return list.Items
}

func annotate(tn *env.Tenant, obj client.Object, key, value string) {
	tn.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	require.NoError(tn.T, cluster.Client.Patch(tn.T.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// awaitAvailable waits until the given number of replicas of the Deployment are available.
func awaitAvailable(tn *env.Tenant, replicas int32) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		d := &appsv1.Deployment{}
		assert.NoError(c, tn.Get("demo", d))
		assert.Equal(c, replicas, d.Status.AvailableReplicas)
	})
}

func TestAnOperatorThatLosesOneOfTwoPodsStaysSucceeded(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(tn *env.Tenant, p *corev1.Pod){
		"evicted": func(tn *env.Tenant, p *corev1.Pod) { annotate(tn, p, "standin.test/lost", "true") },
		"deleted": func(tn *env.Tenant, p *corev1.Pod) {
			require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), p, client.GracePeriodSeconds(0)))
		},
		"not ready": func(tn *env.Tenant, p *corev1.Pod) { annotate(tn, p, "standin.test/ready", "false") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := installed(t, twoReplicas)
			awaitAvailable(tn, 2)
			before := phases(tn)
			all := pods(tn)
			require.Len(t, all, 2)
			lose(tn, &all[0])
			awaitAvailable(tn, 1)
			if name == "not ready" {
				annotate(tn, &all[0], "standin.test/ready", "true")
			}
			awaitAvailable(tn, 2)
			requireSucceeded(tn)
			require.Equal(t, before, phases(tn), "the operator must not be installed again")
		})
	}
}

func TestAnOperatorWithoutAnAvailablePodFailsUntilThereIsOne(t *testing.T) {
	t.Parallel()
	tn := installed(t)
	all := pods(tn)
	require.Len(t, all, 1)
	annotate(tn, &all[0], "standin.test/ready", "false")
	got := requirePhase(tn, operatorsv1alpha1.CSVPhaseInstalling, operatorsv1alpha1.CSVReasonWaiting)
	require.Contains(t, got.Status.Message, `deployment "demo" not available`)
	annotate(tn, &all[0], "standin.test/ready", "true")
	requireSucceeded(tn)
}

func TestAnOperatorThatIsScaledToZeroIsNotSucceeded(t *testing.T) {
	t.Parallel()
	tn := installed(t, func(c *csv) {
		// Set the field in the CSV, so that scaling takes over its ownership from the install.
		c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Replicas = ptr.To(int32(1))
	})
	d := &appsv1.Deployment{ObjectMeta: tn.Meta("demo")}
	scale := func(replicas string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+replicas+`}}`))
		require.NoError(t, cluster.Client.Patch(t.Context(), d, patch))
	}
	scale("0")
	got := requirePhase(tn, operatorsv1alpha1.CSVPhaseInstalling, operatorsv1alpha1.CSVReasonWaiting)
	require.Contains(t, got.Status.Message, "is scaled to 0 replicas; to scale it up, run: kubectl scale deployment demo -n "+tn.Namespace+" --replicas=1")
	scale("1")
	requireSucceeded(tn)
}

func TestReportsAnEditedImageAndTheRemedy(t *testing.T) {
	t.Parallel()
	tn := installed(t)
	d := &appsv1.Deployment{ObjectMeta: tn.Meta("demo")}
	patch := client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"manager","image":"images.test/other:2"}]}}}}`))
	require.NoError(t, cluster.Client.Patch(t.Context(), d, patch, client.FieldOwner("kubectl-set")))
	tn.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase, got.Status.Message)
		assert.Contains(c, got.Status.Message, `container manager runs image "images.test/other:2" instead of "images.test/demo:1" (set by "kubectl-set")`)
		assert.Contains(c, got.Status.Message, "kubectl delete deployment demo -n "+tn.Namespace)
	})

	require.NoError(t, cluster.Client.Delete(t.Context(), d)) // the remedy
	tn.Eventually(func(c *assert.CollectT) {
		got, now := &csv{}, &appsv1.Deployment{}
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Equal(c, "install strategy completed with no errors", got.Status.Message)
		require.NoError(c, tn.Get("demo", now))
		assert.Equal(c, "images.test/demo:1", now.Spec.Template.Spec.Containers[0].Image)
	})
}
