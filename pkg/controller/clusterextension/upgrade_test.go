package clusterextension_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
)

const otherConfigMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {a: "2"}}`

// clusterRoles returns the names of the extension's ClusterRoles.
func (w *world) clusterRoles() []string {
	w.t.Helper()
	list := &rbacv1.ClusterRoleList{}
	require.NoError(w.t, w.admin.List(w.t.Context(), list, client.MatchingLabels{names.LabelExtensionName: w.name}))
	var out []string
	for _, role := range list.Items {
		out = append(out, role.Name)
	}
	return out
}

// An upgrade that needs more permissions reports them, and how they differ from those of the installed version, before
// anything is written. After the upgrade, objects that the new version does not have are removed.
func TestUpgradesAfterTheAddedPermissionsAreGranted(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.publish("1.0.0", "", csv, crd, configMap)
	w.install()
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	w.enroll()
	w.apply(w.report(preflight.FileGrant))
	w.awaitInstalled("1.0.0")
	before := w.clusterRoles()
	w.publish("1.1.0", "op.v1.0.0", strings.Replace(csv, "verbs: [get, list, watch]", "verbs: [get, delete]", 1), crd, otherConfigMap)
	text := w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	require.Contains(t, text, "op.v1.1.0 requests different permissions than op.v1.0.0:")
	require.Regexp(t, `(?m)^\+ .*delete.* cluster-wide$`, text)
	require.Regexp(t, `(?m)^- .*list.*watch.* cluster-wide$`, text)
	w.retries("pre-authorization failed")
	require.Equal(t, "1.0.0", w.get().Status.Install.Bundle.Version)
	require.Equal(t, before, w.clusterRoles())
	require.False(t, w.exists(&corev1.ConfigMap{}, "other"))

	w.apply(w.report(preflight.FileGrant))
	w.awaitInstalled("1.1.0")
	require.True(t, w.exists(&corev1.ConfigMap{}, "other"))
	require.False(t, w.exists(&corev1.ConfigMap{}, "defaults"), "the new version does not contain this ConfigMap")
	require.Len(t, w.clusterRoles(), len(before))
	require.NotEqual(t, before, w.clusterRoles())
	w.checkOwners()
}

// A version that never becomes available replaces the installed one neither in the status nor in the cluster.
func TestAFailingUpgradeKeepsTheInstalledVersion(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(csv, crd, configMap)
	w.publish("1.1.0", "op.v1.0.0", strings.Replace(csv, "images.test/works", "images.test/fails", 1), crd, otherConfigMap)
	w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
	require.EventuallyWithT(t, func(t2 *assert.CollectT) {
		assert.Equal(t2, "images.test/fails", w.deployment().Spec.Template.Spec.Containers[0].Image)
	}, patience, tick)
	w.await(olmv1.TypeAvailable, metav1.ConditionFalse, olmv1.ReasonRollingOut)
	require.Equal(t, int32(1), w.deployment().Status.AvailableReplicas, "a Pod of the old version runs")
	require.Equal(t, "1.0.0", w.get().Status.Install.Bundle.Version)
	require.True(t, w.exists(&corev1.ConfigMap{}, "defaults"), "nothing is removed before the new version is available")
	w.await(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded)

	w.publish("1.2.0", "op.v1.1.0", csv, crd, otherConfigMap) // cannot be installed, because it replaces only 1.1.0, which never became available
	w.publish("1.2.1", "op.v1.0.0", csv, crd, otherConfigMap)
	w.awaitInstalled("1.2.1")
	require.False(t, w.exists(&corev1.ConfigMap{}, "defaults"))
}

// Objects that users delete are created again. What users add to an object is kept.
func TestRestoresObjects(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(csv, crd, configMap)
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "op"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.clusterRoles()[0]}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "op"}},
	} {
		require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		uid := obj.GetUID()
		require.NoError(t, w.admin.Delete(t.Context(), obj))
		require.Eventually(t, func() bool {
			return w.admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) == nil && obj.GetUID() != uid
		}, patience, tick, "%T", obj)
	}
	w.awaitInstalled("1.0.0")
	w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)

	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}}
	require.NoError(t, w.admin.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"mine":"1"}},"data":{"b":"2"}}`))))
	d := w.deployment()
	require.NoError(t, w.admin.Patch(t.Context(), d, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"mine":"1"}},"spec":{"replicas":2,"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`))))
	require.NoError(t, w.admin.Patch(t.Context(), cm, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/a"}]`))))
	require.Eventually(t, func() bool {
		return w.admin.Get(t.Context(), client.ObjectKeyFromObject(cm), cm) == nil && cm.Data["a"] == "1"
	}, patience, tick, "a removed field is restored")
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, cm.Data)
	require.Equal(t, "1", cm.Labels["mine"])
	w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	d = w.deployment()
	require.Equal(t, int32(2), *d.Spec.Replicas)
	require.Equal(t, "1", d.Labels["mine"])
	require.Equal(t, "now", d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"])
}

// While an object that other clients repeatedly delete is missing, the status does not report success.
func TestReportsObjectsThatAreNotRestoredYet(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(csv, crd, configMap)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}}
	const text = "other clients repeatedly change or delete these objects, which are restored at increasing intervals: ConfigMap "
	require.Eventually(t, func() bool {
		_ = w.admin.Delete(t.Context(), cm) // the ConfigMap may not exist
		all := w.get().Status.Conditions
		c, progressing := meta.FindStatusCondition(all, olmv1.TypeAvailable), meta.FindStatusCondition(all, olmv1.TypeProgressing)
		return strings.Contains(progressing.Message, text) && c.Status == metav1.ConditionFalse && c.Reason == olmv1.ReasonRollingOut && c.Message == text+w.name+"/defaults"
	}, patience, tick)
	require.Equal(t, "All objects are available", w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded))
	require.True(t, w.exists(cm, "defaults"))
}

// In a watch of a namespace, only the fields that are needed to restore objects are cached.
func TestRestoresObjectsThatShareAWatch(t *testing.T) {
	t.Parallel()
	w := given(t)
	manifests := []string{csv, crd, configMap}
	for i := range 21 {
		manifests = append(manifests, strings.Replace(configMap, "defaults", fmt.Sprintf("defaults-%d", i), 1))
	}
	w.installed(manifests...)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}}
	edit := func(text string) {
		require.NoError(t, w.admin.Patch(t.Context(), cm, client.RawPatch(types.JSONPatchType, []byte(text))))
	}
	edit(`[{"op":"remove","path":"/data/a"}]`)
	require.Eventually(t, func() bool {
		return w.admin.Get(t.Context(), client.ObjectKeyFromObject(cm), cm) == nil && cm.Data["a"] == "1"
	}, patience, tick)
	edit(`[{"op":"remove","path":"/metadata/labels"}]`)
	w.retries("defaults already exists")
}

// A collision is reported before the first write, and nothing is written.
func TestRefusesToAdoptObjects(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.grantAll()
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}})
	w.publish("1.0.0", "", csv, crd, configMap)
	w.install()
	text := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	require.Contains(t, text, "ConfigMap "+w.name+"/defaults already exists and was not created by this install")
	require.False(t, w.exists(&corev1.ServiceAccount{}, "op"))
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}}))
	w.awaitInstalled("1.0.0")
}
