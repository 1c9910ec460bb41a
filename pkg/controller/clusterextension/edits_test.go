package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

// probed is csv with a probe and labels for its Deployment.
func probed(version string) string {
	return strings.NewReplacer("      - name: op\n", "      - name: op\n        label: {release: "+version+"}\n",
		`args: ["100000"]`, `args: ["100000"], livenessProbe: {tcpSocket: {port: 1}, initialDelaySeconds: 100000}`).Replace(csv)
}

// A change to only the labels of a Deployment does not change the hash of its spec.
func TestLabelsOfDeploymentsFollowUpgrades(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(probed("one"), crd)
	require.Equal(t, "one", w.deployment().Labels["release"])
	w.publish("1.1.0", "op.v1.0.0", probed("two"), crd)
	w.awaitInstalled("1.1.0")
	require.Equal(t, "two", w.deployment().Labels["release"])
	w.publish("1.2.0", "op.v1.1.0", strings.Replace(probed(""), "label: {release: }", "label: {}", 1), crd)
	w.awaitInstalled("1.2.0")
	require.NotContains(t, w.deployment().Labels, "release")
}

// Removed fields are restored. Fields that another client changed are kept and reported.
func TestDriftOfDeploymentsIsRepairedOrReported(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(probed("one"), crd)
	w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	edit := func(change func(d *appsv1.Deployment)) {
		before := w.deployment()
		after := before.DeepCopy()
		change(after)
		require.NoError(t, w.admin.Patch(t.Context(), after, client.MergeFrom(before), client.FieldOwner("editor")))
	}
	edit(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].LivenessProbe = nil })
	require.Eventually(t, func() bool { return w.deployment().Spec.Template.Spec.Containers[0].LivenessProbe != nil }, patience, tick)
	edit(func(d *appsv1.Deployment) { delete(d.Labels, "release") })
	require.Eventually(t, func() bool { return w.deployment().Labels["release"] == "one" }, patience, tick)

	edit(func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "images.test/works2"
		d.Spec.Template.Spec.Containers[0].LivenessProbe = nil
	})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		container := w.deployment().Spec.Template.Spec.Containers[0]
		assert.NotNil(c, container.LivenessProbe)
		assert.Equal(c, "images.test/works2", container.Image)
		assert.Contains(c, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded),
			`other clients changed these fields, which are kept: Deployment `+w.name+`/op: spec.template.spec.containers[{"name":"manager"}].image (by "editor")`)
	}, patience, tick)
}
