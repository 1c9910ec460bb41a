package catalogsource

import (
	"fmt"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/test/env/registry"
)

func TestCatalogsOfANamespaceShareABudget(t *testing.T) {
	at := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	a, b, other, global := holder{by: fromImage, key: at("t1", "a")}, holder{by: fromConfigMap, key: at("t1", "b")}, holder{by: fromImage, key: at("t2", "a")}, holder{by: fromImage, key: at("global", "a")}
	var woken []types.NamespacedName
	bound := newBudget("global")
	bound.max, bound.total = 10<<20, 1<<30
	bound.wake = func(key types.NamespacedName) { woken = append(woken, key) }
	require.NoError(t, bound.take(a, 6<<20))
	require.EqualError(t, bound.take(b, 4<<20+1), "the catalog's content needs 5 MiB of memory, and the other catalogs of namespace t1 use 6 MiB; together, at most 10 MiB are allowed")
	require.NoError(t, bound.take(other, 10<<20))
	require.NoError(t, bound.take(global, 100<<20), "the global catalog namespace has no limit")
	require.Error(t, bound.take(a, 11<<20))
	require.Error(t, bound.take(b, 5<<20), "the previous size still counts")
	require.Empty(t, woken)

	require.NoError(t, bound.take(a, 5<<20))
	require.ElementsMatch(t, []types.NamespacedName{b.key}, woken)
	require.NoError(t, bound.take(b, 5<<20))
	require.Error(t, bound.take(b, 6<<20))
	bound.release(other)
	require.Len(t, woken, 1)
	bound.release(a)
	require.Equal(t, []types.NamespacedName{b.key, b.key}, woken)
	bound.release(b)
	require.Len(t, woken, 2)
	require.Equal(t, map[holder]int64{}, bound.used)
	require.Empty(t, bound.refused)
}

func TestCatalogsOfAllTenantsShareABudget(t *testing.T) {
	at := func(namespace string) holder {
		return holder{by: fromImage, key: types.NamespacedName{Namespace: namespace, Name: "a"}}
	}
	var woken []types.NamespacedName
	bound := newDiskBudget("global")
	bound.max, bound.total, bound.least, bound.most = 10<<20, 20<<20, 1<<20, 22<<20
	bound.wake = func(key types.NamespacedName) { woken = append(woken, key) }
	require.NoError(t, bound.take(at("t1"), 10<<20))
	require.NoError(t, bound.take(at("t2"), 10<<20))
	require.EqualError(t, bound.take(at("t3"), 2<<20), "the catalog's content needs 2 MiB of disk, but the catalogs of all tenants together can use at most 20 MiB")
	require.NoError(t, bound.take(at("t4"), 1<<20), "every namespace has a minimum")
	require.NoError(t, bound.take(at("t5"), 1<<20))
	require.EqualError(t, bound.take(at("t6"), 1<<20), "the catalog's content needs 1 MiB of disk, but the catalogs of all tenants together can use at most 22 MiB")
	require.NoError(t, bound.take(at("global"), 1<<40))
	bound.release(at("t1"))
	require.ElementsMatch(t, []types.NamespacedName{at("t3").key, at("t6").key}, woken)
	require.NoError(t, bound.take(at("t3"), 2<<20))
	require.NoError(t, bound.take(at("t6"), 1<<20))
}

// The limit applies to any number of namespaces and to every kind of budget.
func TestTheMinimumsOfNamespacesAreLimitedInTotal(t *testing.T) {
	for _, bound := range []*budget{newBudget("global"), newDiskBudget("global"), newWorkBudget("global")} {
		for n := range 1000 {
			h := holder{by: fromImage, key: types.NamespacedName{Namespace: fmt.Sprint(n), Name: "a"}}
			if bound.take(h, bound.max) != nil {
				_ = bound.take(h, bound.least)
			}
		}
		_, all := bound.others(holder{})
		require.Greater(t, all, bound.total, bound.resource)
		require.LessOrEqual(t, all, bound.most, bound.resource)
	}
}

// A refused catalog reports the reason, and is served when another catalog is deleted. The other catalogs are not
// affected.
func TestACatalogThatExceedsTheBudgetOfItsNamespace(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "c", UID: "u"},
		Data: map[string]string{"catalog.yaml": goodCatalog + strings.Repeat("#", 1<<20)}}
	text := operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}
	w := running(t, cm, catalogSource("first", text), catalogSource("second", text),
		catalogSource("image", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	w.images.budget.exempt, w.images.budget.max = "", 1<<20+100<<10
	requireReady(t, w.reconcile(t, "first"))
	got := w.reconcile(t, "second")
	require.Equal(t, operatorsv1alpha1.CatalogSourceConfigMapError, got.Reason)
	require.Contains(t, got.Message, "together, at most 2 MiB are allowed")
	_, ok := w.Store.Get(key("second"))
	require.False(t, ok)
	requireReady(t, w.afterCheck(t, "image"))
	requireReady(t, w.reconcile(t, "first"))

	w.forget(t.Context(), key("first"), w.Store.Delete)
	requireReady(t, w.reconcile(t, "second"))
	_, ok = w.Store.Get(key("second"))
	require.True(t, ok)
}

func TestRetriesAnImageThatExceededTheBudget(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	w := running(t, catalogSource("image", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	bound := w.images.budget
	bound.exempt, bound.max = "", 1<<20
	large := holder{by: fromConfigMap, key: key("large")}
	require.NoError(t, bound.take(large, 1<<20))
	require.Contains(t, w.afterCheck(t, "image").Message, "couldn't ensure registry server: the catalog's content needs 1 MiB of memory")

	bound.release(large)
	require.True(t, w.isRetried(t, true))
	require.Eventually(t, func() bool { return w.reconcile(t, "image").Message == "" }, time.Minute, 10*time.Millisecond)
	_, ok := w.Store.Get(key("image"))
	require.True(t, ok)
}
