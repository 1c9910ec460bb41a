package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
)

// givenInstalled returns a world with its own program, which has installed version 1.0.0 and is stopped. Then the catalog is
// deleted.
func givenInstalled(t *testing.T) *world {
	t.Helper()
	w := given(t)
	w.program = w.private(w.name)
	stop := w.run(t)
	w.grantAll()
	w.publish("1.0.0", "", csv, crd, configMap)
	w.install(func(ext *olmv1.ClusterExtension) { ext.Labels = map[string]string{labelProgram: w.name} })
	w.awaitInstalled("1.0.0")
	w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	stop()
	require.NoError(t, w.admin.Delete(t.Context(), &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
	w.store = &catalog.Store{}
	return w
}

// What was installed is restored although its catalog was deleted and the program was restarted.
func TestRestoresObjectsWithoutTheCatalog(t *testing.T) {
	t.Parallel()
	w := givenInstalled(t)
	was := w.deployment().UID
	require.NoError(t, w.admin.Delete(t.Context(), w.deployment()))
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}}))
	t.Cleanup(w.run(t))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		d := &appsv1.Deployment{}
		if assert.NoError(c, w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.name, Name: "op"}, d)) {
			assert.NotEqual(c, was, d.UID)
		}
		assert.True(c, w.exists(&corev1.ConfigMap{}, "defaults"))
	}, patience, tick)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // until then, the status is that of the program before
		assert.Contains(c, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded), "the installed version 1.0.0 is kept")
	}, patience, tick)
	w.awaitInstalled("1.0.0")
	require.Equal(t, "All objects are available", w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded))
}

// Content that another client changed is not installed, and the status does not claim that it knows the state of the objects.
func TestForgedContentIsNotInstalled(t *testing.T) {
	t.Parallel()
	w := givenInstalled(t)
	cm := &corev1.ConfigMap{}
	require.NoError(t, w.admin.Get(t.Context(), types.NamespacedName{Namespace: home, Name: clusterextension.ContentName(w.name)}, cm))
	cm.Data["bundle.json"] = strings.Replace(cm.Data["bundle.json"], `"digest":"sha256:`, `"digest":"sha256:0`, 1)
	require.NoError(t, w.admin.Update(t.Context(), cm))
	require.NoError(t, w.admin.Delete(t.Context(), w.deployment()))
	t.Cleanup(w.run(t))
	text := w.await(olmv1.TypeAvailable, metav1.ConditionUnknown, olmv1.ReasonNotObserved)
	require.Contains(t, text, "its objects are not checked, because ConfigMap "+home+"/"+clusterextension.ContentName(w.name)+" is not used: it was changed")
	require.False(t, w.exists(&appsv1.Deployment{}, "op"))
}
