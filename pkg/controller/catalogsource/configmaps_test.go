package catalogsource

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog/configmap"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// A ConfigMap is read as the account, so a tenant cannot get at the content of one that the account may not read.
func TestACatalogInAConfigMapThatTheAccountMayNotRead(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "c"}, Data: map[string]string{"catalog.yaml": goodCatalog}}
	w := given(t, nil, cm, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}))
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", errors.New(`User "acct" cannot get resource`))
	for _, unread := range []error{forbidden, &scoped.Error{Reason: scoped.NoOperatorGroup, Message: "namespace has no OperatorGroup"}} {
		w.unread = unread
		got := w.reconcile(t, "cat")
		require.Equal(t, operatorsv1alpha1.CatalogSourceConfigMapError, got.Reason)
		require.Contains(t, got.Message, unread.Error())
		_, published := w.Store.Get(key("cat"))
		require.False(t, published)
	}
	w.unread = forbidden
	require.Contains(t, w.reconcile(t, "cat").Message, "kubectl create role catalog-c -n remit --verb=get,watch --resource=configmaps --resource-name=c")
	require.Empty(t, howToAllow(forbidden, "remit", "c; reboot"))

	w.unread = nil
	require.Empty(t, w.reconcile(t, "cat").Reason)
	w.unread = forbidden
	got := w.reconcile(t, "cat")
	require.Equal(t, operatorsv1alpha1.CatalogSourceConfigMapError, got.Reason)
	_, published := w.Store.Get(key("cat"))
	require.True(t, published, "the last good content is still served")
}

// A ConfigMap can contain a manifest once for many packages, but each of them keeps a copy.
func TestManifestsOfAConfigMapCountForEachPackage(t *testing.T) {
	csv := `[{"kind":"ClusterServiceVersion","metadata":{"name":"a"},"spec":{"version":"1.0.0","description":"` + strings.Repeat("x", 100<<10) + `"}}]`
	var packages []string
	for i := range 20 {
		packages = append(packages, fmt.Sprintf(`{"packageName":"p%d","channels":[{"name":"c","currentCSV":"a"}]}`, i))
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "c", UID: "u"}, Data: map[string]string{
		configmap.KeyCSVs: csv, configmap.KeyCRDs: "[]", configmap.KeyPackages: "[" + strings.Join(packages, ",") + "]"}}
	w := running(t, cm, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}))
	w.images.budget.exempt = ""
	requireReady(t, w.reconcile(t, "cat"))
	require.Greater(t, w.images.budget.holds(holder{by: fromConfigMap, key: key("cat")}), int64(20*100<<10))
}

// A CatalogSource beyond the limit of its namespace reads no ConfigMap, and says why.
func TestACatalogInAConfigMapWaitsForAPlace(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "c", UID: "u"}, Data: map[string]string{"catalog.yaml": goodCatalog}}
	w := given(t, nil, cm, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}))
	w.follows.places.exempt, w.follows.places.wake = "", func(types.NamespacedName) {}
	for n := range maxConfigMaps {
		require.NoError(t, w.follows.take(key(fmt.Sprint(n))))
	}
	got := w.reconcile(t, "cat")
	require.Equal(t, operatorsv1alpha1.CatalogSourceConfigMapError, got.Reason)
	require.Contains(t, got.Message, "config map c: namespace remit already has 50 catalogs in ConfigMaps")
	require.Nil(t, got.ConfigMapResource)

	w.follows.drop(key("0"))
	requireReady(t, w.reconcile(t, "cat"))
}
