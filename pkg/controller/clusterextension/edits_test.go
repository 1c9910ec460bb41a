package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// What another client removed from other objects of a bundle is restored. What it changed to another value is kept, and the conflict
// is reported until the client gives the field up.
func TestDriftOfOtherObjectsIsRepairedOrReported(t *testing.T) {
	t.Parallel()
	const metadata = "labels: {release: one}, annotations: {example.com/note: one}"
	w := given(t)
	w.installed(csv, strings.Replace(crd, "metadata: {", "metadata: {"+metadata+", ", 1),
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: defaults, `+metadata+`}, data: {a: "1", b: "1"}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: metrics, `+metadata+`}, spec: {selector: {app: op}, ports: [{name: http, port: 80}]}}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: helper, `+metadata+`}}`)
	w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	for kind, obj := range map[string]client.Object{
		"CustomResourceDefinition": &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things." + w.name + ".example.com"}},
		"ConfigMap":                &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}},
		"Service":                  &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "metrics"}},
		"ServiceAccount":           &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "helper"}},
	} {
		edit := func(patch string) {
			require.NoError(t, w.admin.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("editor")))
		}
		restored := func() {
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.NoError(c, w.admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
				assert.Equal(c, "one", obj.GetAnnotations()["example.com/note"], kind)
				assert.Equal(c, "one", obj.GetLabels()["release"], kind)
				assert.NotContains(c, w.progressing(), "editor")
			}, patience, tick)
		}
		edit(`{"metadata": {"labels": {"release": null}, "annotations": {"example.com/note": null}}}`)
		restored()
		edit(`{"metadata": {"labels": {"release": "two"}}}`)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Contains(c, w.progressing(), kind+" ")
			assert.Contains(c, w.progressing(), `"editor"`)
			assert.Contains(c, w.progressing(), "metadata.labels.release")
		}, patience, tick)
		edit(`{"metadata": {"labels": {"release": null}}}`)
		restored()
	}
}

// progressing returns the message of the condition Progressing.
func (w *world) progressing() string {
	w.t.Helper()
	return meta.FindStatusCondition(w.get().Status.Conditions, olmv1.TypeProgressing).Message
}
