package clusterextension_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env/audit"
)

// A schema that existing objects violate is refused, unless the check is disabled.
func TestUnsafeCRDUpgradesAreRefused(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(csv, crd, configMap)
	w.apply(strings.ReplaceAll(`{apiVersion: NAME.example.com/v1, kind: Thing, metadata: {name: big, namespace: NAME}, spec: {size: big}}`, "NAME", w.name))
	stricter := strings.Replace(crd, "x-kubernetes-preserve-unknown-fields: true", "properties: {spec: {type: object, properties: {size: {type: integer}}}}", 1)
	w.publish("1.1.0", "op.v1.0.0", csv, stricter, configMap)
	text := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	require.Contains(t, text, "updated validation is too restrictive: 1 object(s) would be invalid in version v1: "+w.name+"/big (spec.size")
	require.Equal(t, "1.0.0", w.get().Status.Install.Bundle.Version)
	w.edit(func(ext *olmv1.ClusterExtension) {
		ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{
			CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: olmv1.CRDUpgradeSafetyEnforcementNone},
		}}
	})
	w.awaitInstalled("1.1.0")
}

// A blocked extension sends no requests when unrelated objects change, and resumes after the grant.
func TestBlockedExtensionsAreSilentUntilTheGrant(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.missing(csv, crd, configMap)
	concerns := func(e audit.Event) bool {
		return strings.Contains(e.User.Username, "remit-extension") && (w.sentAs(e) || strings.Contains(e.RequestURI, w.name))
	}
	from := w.logEnd()
	require.Eventually(t, func() bool { // the cache may show the enrollment after the first status, which triggers one more reconcile
		quiet := len(w.requests(from, concerns)) == 0
		from = w.logEnd()
		return quiet
	}, patience, time.Second)
	version := w.get().ResourceVersion
	w.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "unrelated-" + w.name}})
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "unrelated"}})
	w.store.Touch(types.NamespacedName{Name: w.name})
	<-time.After(2 * time.Second)
	require.Empty(t, w.requests(from, concerns))
	require.Equal(t, version, w.get().ResourceVersion)
	grant := w.report(preflight.FileGrant)
	at := time.Now()
	w.apply(grant)
	w.awaitInstalled("1.0.0")
	writes := w.requests(from, func(e audit.Event) bool { return w.sentAs(e) && e.Wrote() })
	require.NotEmpty(t, writes)
	t.Logf("grant to first write: %s", writes[0].Received.Sub(at))
}

// If no catalog provides the package any longer, the installed version is kept and maintained.
func TestKeepsTheInstalledVersionWithoutACatalog(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(csv, crd, configMap)
	require.NoError(t, w.admin.Delete(t.Context(), &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
	w.store.Delete(types.NamespacedName{Name: w.name})
	w.await(olmv1.TypeDeprecated, metav1.ConditionUnknown, olmv1.ReasonDeprecationStatusUnknown)
	require.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded), "the installed version 1.0.0 is kept")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "defaults"}}
	require.NoError(t, w.admin.Delete(t.Context(), cm))
	require.Eventually(t, func() bool { return w.admin.Get(t.Context(), client.ObjectKeyFromObject(cm), cm) == nil }, patience, tick)
}

// Permissions to watch are needed only for objects whose status the install waits for. The status names the other kinds.
func TestReportsKindsThatAreNotWatched(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installedAfterGrant(csv, crd, configMap)
	text := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	require.Contains(t, text, "changes to objects of these kinds are not detected, because User "+w.user()+" is not allowed to list and watch them: ConfigMap")
	w.apply(strings.ReplaceAll(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: w, namespace: NAME}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: w, namespace: NAME}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: w},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "olm:clusterextensions"}]}`, "NAME", w.name))
	require.Eventually(t, func() bool {
		return w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded) == "Desired state reached"
	}, patience, tick)
}
