package catalogsource

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"

	sizes "github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/registry"
)

func TestCatalogsOfANamespaceShareABudget(t *testing.T) {
	at := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	a, b, other, global := holder{by: fromImage, key: at("t1", "a")}, holder{by: fromConfigMap, key: at("t1", "b")}, holder{by: fromImage, key: at("t2", "a")}, holder{by: fromImage, key: at("global", "a")}
	var woken []types.NamespacedName
	bound := newBudget("global")
	bound.max, bound.room.Total = 10<<20, 1<<30
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
	bound.max, bound.room = 10<<20, sizes.Room{Total: 20 << 20, Least: 1 << 20, Most: 22 << 20}
	bound.wake = func(key types.NamespacedName) { woken = append(woken, key) }
	require.NoError(t, bound.take(at("t1"), 10<<20))
	require.EqualError(t, bound.take(at("t2"), 6<<20), "the catalog's content needs 6 MiB of disk, but what is left of the 20 MiB for the catalogs of all tenants is for namespaces that use less; the share of a namespace is 7 MiB now")
	require.NoError(t, bound.take(at("t2"), 6<<20), "a namespace that has waited can use its share")
	require.NoError(t, bound.take(at("t3"), 2<<20))
	require.EqualError(t, bound.take(at("t2"), 9<<20), "the catalog's content needs 9 MiB of disk, but the catalogs of all tenants together can use at most 20 MiB")
	require.NoError(t, bound.take(at("t2"), 6<<20), "what does not grow remains")
	require.NoError(t, bound.take(at("t4"), 1<<20), "every namespace has a minimum")
	require.NoError(t, bound.take(at("t5"), 1<<20))
	require.NoError(t, bound.take(at("t6"), 1<<20))
	require.NoError(t, bound.take(at("t7"), 1<<20))
	require.EqualError(t, bound.take(at("t8"), 1<<20), "the catalog's content needs 1 MiB of disk, but the catalogs of all tenants together can use at most 22 MiB")
	require.NoError(t, bound.take(at("global"), 1<<40))
	require.NoError(t, bound.take(at("t1"), 10<<20), "although all together use more than the limit without the minimum")
	bound.release(at("t1"))
	require.ElementsMatch(t, []types.NamespacedName{at("t8").key}, woken)
	require.NoError(t, bound.take(at("t8"), 1<<20))
}

// all returns what all holders use.
func (b *budget) all() (n int64) {
	for _, u := range b.usage("") {
		n += u.Used
	}
	return n
}

func imageOf(format string, args ...any) holder {
	return holder{by: fromImage, key: types.NamespacedName{Namespace: fmt.Sprintf(format, args...), Name: "a"}}
}

func allBudgets() []*budget {
	return []*budget{newBudget("global"), newDiskBudget("global"), newWorkBudget("global")}
}

// Six namespaces took all memory of tenants, two all of the disk, and three that of temporary files.
func TestAFewNamespacesLeaveRoomForOthers(t *testing.T) {
	for _, bound := range allBudgets() {
		for n := range bound.room.Total/bound.max + 1 {
			for size := bound.max; size > 0 && bound.take(imageOf("evil%d", n), size) != nil; size /= 2 {
				bound.satisfy(imageOf("evil%d", n).key)
			}
		}
		require.NoError(t, bound.take(imageOf("victim"), 2*bound.room.Least), bound.resource)
	}
}

// After a restart, namespaces that had little room to grow into must not take that of those that are loaded later.
func TestAfterAStartEachNamespaceGetsItsShare(t *testing.T) {
	for _, bound := range allBudgets() {
		victim, large := imageOf("victim"), bound.room.Total/10
		bound.expect(victim.key)
		for n := range 8 {
			bound.expect(imageOf("evil%d", n).key)
		}
		refused := 0
		for n := range 8 {
			if bound.take(imageOf("evil%d", n), bound.max) != nil {
				refused++
			}
			bound.settle(imageOf("evil%d", n).key)
		}
		require.Positive(t, refused)
		require.Less(t, refused, 8, "what others cannot use is not left unused")
		require.NoError(t, bound.take(victim, large), bound.resource)
		woken := map[types.NamespacedName]bool{}
		bound.wake = func(key types.NamespacedName) { woken[key] = true }
		bound.settle(victim.key)
		require.Len(t, woken, refused, "the others are tried again when all were read")
	}
}

// What is served is not dropped for another namespace, but what becomes free is left to it.
func TestANamespaceThatWaitsGetsWhatBecomesFree(t *testing.T) {
	bound := newBudget("global")
	evil := func(n int) holder { return imageOf("evil%d", n) }
	sizes := []int64{64, 64, 64, 64, 64, 32, 16, 8, 4, 4}
	for n, size := range sizes {
		require.NoError(t, bound.take(evil(n), size<<20))
	}
	victim := imageOf("victim")
	require.Error(t, bound.take(victim, 30<<20))
	for n, size := range sizes {
		require.NoError(t, bound.take(evil(n), size<<20), "content that does not grow can be replaced")
	}
	require.Error(t, bound.take(evil(5), 33<<20))
	bound.satisfy(evil(5).key)
	require.NoError(t, bound.take(evil(0), 1<<20))
	require.Error(t, bound.take(evil(0), 64<<20))
	require.NoError(t, bound.take(evil(5), 33<<20), "enough is left")
	require.NoError(t, bound.take(victim, 10<<20), "while it is read")
	require.Error(t, bound.take(evil(0), 50<<20))
	require.NoError(t, bound.take(victim, 30<<20))
	require.Empty(t, bound.wanted[victim.key])
	bound.release(evil(0))
	bound.release(evil(5))
	bound.release(victim)
	require.Empty(t, bound.wanted)
}

// A registry is listed again, with what it has sent, although its namespace could not use as much now.
func TestListingAgainIsNotRefusedForOtherNamespaces(t *testing.T) {
	bound := newBudget("global")
	listed := imageOf("a")
	require.NoError(t, bound.take(listed, 60<<20))
	for n := range 4 {
		require.NoError(t, bound.take(imageOf("b%d", n), 50<<20))
	}
	require.NoError(t, bound.take(imageOf("c"), 62<<20))
	require.Error(t, bound.take(listed, 62<<20))
	bound.satisfy(listed.key)
	require.NoError(t, bound.takeWith(listed, 60<<20, 2<<20, 60<<20))
	require.NoError(t, bound.takeWith(listed, 60<<20, 0, 60<<20))
	require.Error(t, bound.takeWith(listed, 60<<20+1, 1<<20, 60<<20))
	require.Error(t, bound.takeWith(imageOf("new"), 0, 40<<20, 0), "new content grows")
}

// The limit applies to any number of namespaces and to every kind of budget.
func TestTheMinimumsOfNamespacesAreLimitedInTotal(t *testing.T) {
	for _, bound := range allBudgets() {
		for n := range 1000 {
			h := holder{by: fromImage, key: types.NamespacedName{Namespace: fmt.Sprint(n), Name: "a"}}
			if bound.take(h, bound.max) != nil {
				_ = bound.take(h, bound.room.Least)
			}
		}
		require.Greater(t, bound.all(), bound.room.Total, bound.resource)
		require.LessOrEqual(t, bound.all(), bound.room.Most, bound.resource)
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

// waiting returns what a CatalogSource waits for.
func (b *budget) waiting(key types.NamespacedName) (wanted int64, expected bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wanted[key], b.expected[key]
}

func TestAnImageWaitsForRoomUntilItIsRead(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	w := running(t, catalogSource("image", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	w.begin(t)
	bound := w.images.budget
	bound.room.Least, bound.room.Most = 0, 0
	large := imageOf("large")
	require.NoError(t, bound.take(large, 60<<20))
	bound.room.Total = 60 << 20
	bound.expect(imageOf("other").key)
	require.Contains(t, w.afterCheck(t, "image").Message, "the catalogs of all tenants together can use at most 60 MiB")
	wanted, expected := bound.waiting(key("image"))
	require.Positive(t, wanted)
	require.False(t, expected, "it was tried")

	bound.mu.Lock()
	bound.wanted[key("image")] = 59 << 20 // what an earlier image needed
	bound.mu.Unlock()
	bound.release(large)
	require.True(t, w.isRetried(t, true))
	require.Eventually(t, func() bool { return w.reconcile(t, "image").Message == "" }, time.Minute, 10*time.Millisecond)
	wanted, _ = bound.waiting(key("image"))
	require.Zero(t, wanted)
}

// What is left for a namespace that waits is free when it does not wait any more, although it has used nothing.
func TestOthersAreTriedAgainWhenANamespaceNoLongerWaits(t *testing.T) {
	for name, end := range map[string]func(*budget, holder){
		"deleted": (*budget).release,
		"smaller": func(b *budget, h holder) { b.satisfy(h.key) },
	} {
		t.Run(name, func(t *testing.T) {
			bound := newBudget("global")
			bound.max, bound.room = 100, sizes.Room{Total: 100}
			woken := map[types.NamespacedName]bool{}
			bound.wake = func(key types.NamespacedName) { woken[key] = true }
			require.NoError(t, bound.take(imageOf("a"), 50))
			require.NoError(t, bound.take(imageOf("b"), 20))
			require.Error(t, bound.take(imageOf("v"), 16))
			require.Error(t, bound.take(imageOf("w"), 16))
			require.NoError(t, bound.take(imageOf("a"), 40))
			require.NoError(t, bound.take(imageOf("b"), 10))
			refused := imageOf("x")
			require.Error(t, bound.take(refused, 20))
			clear(woken)
			end(bound, imageOf("w"))
			require.True(t, woken[refused.key])
			clear(woken)
			end(bound, imageOf("w"))
			require.Empty(t, woken, "nothing became free")
			require.NoError(t, bound.take(refused, 20))
		})
	}
}

// A ConfigMap does not change when there is room for its content.
func TestACatalogInAConfigMapIsTriedAgain(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "c", UID: "u"},
		Data: map[string]string{"catalog.yaml": goodCatalog + strings.Repeat("#", 1<<20)}}
	w := given(t, nil, cm, catalogSource("text", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}))
	w.follows.open = func(context.Context, rbac.Listers, types.NamespacedName) (watch.Interface, error) {
		return watch.NewFake(), nil
	}
	bound := w.images.budget
	bound.exempt, bound.room = "", sizes.Room{Total: 3400 << 10}
	require.NoError(t, bound.take(imageOf("other"), 1600<<10))
	reconcile := func() time.Duration {
		got, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("text")})
		require.NoError(t, err)
		return got.RequeueAfter
	}
	require.Equal(t, lastReload, reconcile())
	require.Contains(t, w.status(t, "text").Message, "for namespaces that use less")
	require.Less(t, reconcile(), lastReload)
	requireReady(t, w.status(t, "text"))
}

// The numbers are documented (docs/adr/0104-namespaces-leave-each-other-room.md and docs/tasks/catalogs.md).
func TestHowManyNamespacesFillABudget(t *testing.T) {
	memory, space := newBudget("global"), newDiskBudget("global")
	for bound, want := range map[*budget][]int64{memory: {64, 64, 64, 64, 64, 54, 10}, space: {512, 341, 171}} {
		var got []int64
		for n := 0; bound.all() < bound.room.Total; n++ {
			h, size := imageOf("%d", n), bound.max
			for {
				waits := bound.take(h, size) != nil // so that it may use its share
				if !waits || bound.take(h, size) == nil {
					break
				}
				bound.satisfy(h.key)
				size -= 1 << 20
			}
			got = append(got, size>>20)
		}
		require.Equal(t, want, got, bound.resource)
		more := 0
		for bound.take(imageOf("more%d", more), bound.room.Least) == nil {
			more++
		}
		require.Equal(t, map[*budget]int{memory: 32, space: 16}[bound], more, bound.resource)
		require.Error(t, bound.take(imageOf("other"), 1<<20))
	}
}

func TestTheShareOfANinthNamespace(t *testing.T) {
	bound := newBudget("global")
	var keys []types.NamespacedName
	for n := range 9 {
		keys = append(keys, imageOf("%d", n).key)
	}
	bound.expect(keys...)
	for n := range 8 {
		_ = bound.take(imageOf("%d", n), 64<<20)
		bound.settle(keys[n])
	}
	require.Error(t, bound.take(imageOf("8"), 39<<20))
	require.NoError(t, bound.take(imageOf("8"), 38<<20))
}
