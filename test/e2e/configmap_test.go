package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// Remit is not allowed to list tenants' ConfigMaps. It watches the ConfigMap as the account of the namespace, if the account is
// allowed to. When the permission is granted, Remit also picks up earlier changes.
func TestAChangedConfigMapWakesItsCatalogThroughTheAccount(t *testing.T) {
	bounded(t)
	t.Parallel()
	watch := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"content"}, Verbs: []string{"watch"}}
	catalogOf := func() *env.Tenant {
		tn := cluster.Tenant(t)
		tn.Group(env.AccountName, tn.Namespace)
		tn.GrantCatalog("content")
		content, err := env.SampleFBC()
		require.NoError(t, err)
		tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("content"), Data: map[string]string{"catalog.json": content}})
		tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"),
			Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content"}})
		reconnected(tn, "content") // the catalog connects again a second later, and reads the ConfigMap again
		return tn
	}
	unnoticed, noticed := catalogOf(), catalogOf()
	noticed.Grant(noticed.Namespace, watch)
	old := contentVersion(unnoticed)

	changeContent(unnoticed)
	require.NotEqual(t, old, contentVersion(unnoticed))
	for range 3 { // more than once, because the grant itself also causes a read
		changeContent(noticed)
		readsVersion(noticed, contentVersion(noticed))
	}
	cs := &operatorsv1alpha1.CatalogSource{}
	require.NoError(t, unnoticed.Get("catalog", cs))
	require.Equal(t, old, cs.Status.ConfigMapResource.ResourceVersion, "without permission to watch, no event arrives")

	unnoticed.Grant(unnoticed.Namespace, watch)
	readsVersion(unnoticed, contentVersion(unnoticed))

	listed, err := cluster.Audited(t.Context(), func(e audit.Event) bool {
		return cluster.ControllerIdentities().Is(e) && e.Object != nil && e.Object.Resource == "configmaps" && e.Object.Namespace != cluster.Catalogs &&
			(e.Verb == "list" || e.Verb == "watch")
	})
	require.NoError(t, err)
	require.Empty(t, listed)
}

func contentVersion(tn *env.Tenant) string {
	tn.T.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(tn.T, tn.Get("content", cm))
	return cm.ResourceVersion
}

// changeContent changes the ConfigMap without changing the catalog in it.
func changeContent(tn *env.Tenant) {
	tn.T.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(tn.T, tn.Get("content", cm))
	before := cm.DeepCopy()
	cm.Data["catalog.json"] += "\n"
	require.NoError(tn.T, cluster.Client.Patch(tn.T.Context(), cm, client.MergeFrom(before)))
}

// readsVersion waits until the catalog has been read from the given version of the ConfigMap.
func readsVersion(tn *env.Tenant, version string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		if assert.NotNil(c, cs.Status.ConfigMapResource) {
			assert.Equal(c, version, cs.Status.ConfigMapResource.ResourceVersion)
		}
	})
}

// reconnected waits until the catalog has been read from the ConfigMap and its connection is newer than the content. As in
// OLM, tools wait for this. Both times have a resolution of one second.
func reconnected(tn *env.Tenant, configMap string) {
	tn.T.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(tn.T, tn.Get(configMap, cm))
	tn.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		if assert.NotNil(c, cs.Status.ConfigMapResource) && assert.NotNil(c, cs.Status.GRPCConnectionState) {
			assert.Equal(c, cm.ResourceVersion, cs.Status.ConfigMapResource.ResourceVersion)
			assert.Equal(c, cm.UID, cs.Status.ConfigMapResource.UID)
			assert.True(c, cs.Status.GRPCConnectionState.LastConnectTime.After(cs.Status.ConfigMapResource.LastUpdateTime.Time))
		}
	})
}

func TestACatalogReconnectsAfterItsConfigMapChanges(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"watch"}})
	tn.Publish("catalog", releasesV1)
	reconnected(tn, "catalog")
	tn.Publish("catalog", releasesV1, releasesV2)
	reconnected(tn, "catalog")

	// A ConfigMap that was deleted is read again when it is recreated under its name.
	require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: tn.Meta("catalog")}))
	tn.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		assert.Equal(c, operatorsv1alpha1.CatalogSourceConfigMapError, cs.Status.Reason)
	})
	tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("catalog"), Data: map[string]string{"catalog.json": env.Releases(releasesV1)}})
	reconnected(tn, "catalog")
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
}
