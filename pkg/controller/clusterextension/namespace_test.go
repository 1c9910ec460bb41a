package clusterextension_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
)

// account creates the ServiceAccount installer in the namespace of the extension, with the enrollment.
func (w *world) account() {
	w.t.Helper()
	// After a namespace is created again, the API server's admission may still know only the one that was deleted.
	require.Eventually(w.t, func() bool {
		err := w.admin.Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "installer"}})
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			require.NoError(w.t, err)
		}
		return err == nil
	}, patience, tick)
	for _, obj := range scoped.ExtensionAccountEnrollment(types.NamespacedName{Namespace: w.name, Name: "installer"}, home) {
		w.create(obj)
	}
}

// awaitNoNamespace waits until the namespace of the extension has been deleted.
func (w *world) awaitNoNamespace() {
	w.t.Helper()
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		assert.True(t, apierrors.IsNotFound(w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.name}, &corev1.Namespace{})))
	}, patience, tick)
}

// requestsOfAccount returns the requests of the ServiceAccount that exists now.
func (w *world) requestsOfAccount(from int64) []audit.Event {
	w.t.Helper()
	account := &corev1.ServiceAccount{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.name, Name: "installer"}, account))
	return w.requests(from, func(e audit.Event) bool {
		return e.User.Username == scoped.Username(w.name, "installer") && e.User.UID == string(account.UID)
	})
}

// recreateNamespace deletes the namespace and creates another one with the same name, ServiceAccount and enrollment.
func (w *world) recreateNamespace() {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	require.NoError(w.t, w.admin.Delete(w.t.Context(), namespace.DeepCopy()))
	w.awaitNoNamespace()
	w.create(namespace)
	w.account()
}

// Bindings with a finalizer outlive the decision to delete a namespace, so that its former users pass the author check while it is
// being deleted. Whether they did, or whether there was no namespace, cannot be told when it exists again.
func TestANewNamespaceInheritsNoExtension(t *testing.T) {
	t.Parallel()
	for name, isDeleted := range map[string]bool{"written while a namespace is being deleted": true, "written before the namespace": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := given(t)
			held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "held", Finalizers: []string{"example.com/held"}}}
			w.create(held)
			require.NoError(t, w.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
			namespaceIs := func(text string) {
				t.Helper()
				require.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying), text)
			}
			install := func() {
				w.install(func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" })
			}
			if isDeleted {
				install()
				namespaceIs("is being deleted")
			}
			require.NoError(t, w.admin.Patch(t.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			w.awaitNoNamespace()
			if !isDeleted {
				install()
				namespaceIs("create it before the ClusterExtension, or change the spec afterwards")
				created := w.get().CreationTimestamp
				require.Eventually(t, func() bool { return time.Since(created.Time) > 1100*time.Millisecond }, patience, tick) // the resolution of times
			}

			from := w.logEnd()
			w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
			w.account()
			w.publish("1.0.0", "", csv, crd, configMap)
			w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNamespaceRecreated)
			require.Empty(t, w.requestsOfAccount(from))

			w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-" + w.name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "installer"}}})
			w.edit(func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Version = ">=1.0.0" })
			w.awaitInstalled("1.0.0")
		})
	}
}

// The namespace belongs to another team, although its name and the name of its ServiceAccount are the same.
func TestARecreatedNamespaceInheritsNoExtension(t *testing.T) {
	t.Parallel()
	for name, isInstalled := range map[string]bool{"installed": true, "not installed yet": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := given(t)
			w.account()
			w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-" + w.name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "installer"}}})
			if isInstalled {
				w.publish("1.0.0", "", csv, crd, configMap)
			}
			w.install(func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" })
			require.EventuallyWithT(t, func(t *assert.CollectT) { assert.NotNil(t, w.get().Status.Namespace) }, patience, tick)
			if isInstalled {
				w.awaitInstalled("1.0.0")
			}

			from := w.logEnd()
			w.recreateNamespace()
			w.publish("1.0.0", "", csv, crd, configMap)
			message := w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNamespaceRecreated)
			require.Contains(t, message, "deleted and created again")
			require.Contains(t, message, "change the spec, or create the ClusterExtension again")
			require.False(t, w.exists(&appsv1.Deployment{}, "op"))
			require.Empty(t, w.requestsOfAccount(from))

			w.edit(func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Version = ">=1.0.0" })
			w.awaitInstalled("1.0.0")
			require.EventuallyWithT(t, func(t *assert.CollectT) { assert.True(t, w.exists(&appsv1.Deployment{}, "op")) }, patience, tick)
		})
	}
}

// The deletion of an extension resets conversions as its identity, which is no longer that of a ServiceAccount with the same name.
func TestARecreatedNamespaceDeletesNothingOfAnExtension(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.account()
	w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-" + w.name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "installer"}}})
	w.publish("1.0.0", "", webhookCSV(), crd[:strings.Index(crd, "versions:")]+twoVersions, configMap)
	w.install(func(ext *olmv1.ClusterExtension) {
		ext.Spec.ServiceAccount.Name = "installer"
		ext.Annotations = map[string]string{"olm.operatorframework.io/keep-crds": "true"}
	})
	w.awaitInstalled("1.0.0")
	from := w.logEnd()
	w.recreateNamespace()
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNamespaceRecreated)
	require.NoError(t, w.admin.Delete(t.Context(), w.get()))
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		assert.True(ct, apierrors.IsNotFound(w.admin.Get(t.Context(), client.ObjectKey{Name: w.name}, &olmv1.ClusterExtension{})))
	}, patience, tick)
	require.Empty(t, w.requestsOfAccount(from))
	require.Equal(t, apiextensionsv1.WebhookConverter, w.definition().Spec.Conversion.Strategy)
}
