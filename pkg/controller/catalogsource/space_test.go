package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/pull"
	"github.com/remit-olm/remit/pkg/lib/turns"
	"github.com/remit-olm/remit/test/env/registry"
)

// counted enables the budget for images on disk, and returns a function that lists the files.
func (w *world) counted(t *testing.T) (kept func() []string) {
	t.Helper()
	dir := t.TempDir()
	store, err := disk.Open(dir, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	w.images.disk = store
	w.images.space.exempt = ""
	return func() []string {
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		require.NoError(t, err)
		return files
	}
}

// carrying is a catalog with an inline manifest.
const carrying = goodCatalog + "\nproperties: [{type: olm.bundle.object, value: {data: eyJraW5kIjoiWCJ9}}]\n"

func TestDoesNotReadAnImageThatExceedsTheBudgetAgain(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", carrying)
	w := running(t, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	kept := w.counted(t)
	other := holder{by: fromImage, key: key("other")}
	require.NoError(t, w.images.space.take(other, maxNamespaceDisk))
	require.Contains(t, w.afterCheck(t, "cat").Message, "together, at most 512 MiB are allowed")
	require.Empty(t, kept(), "refused content is deleted")
	require.Zero(t, w.images.budget.holds(holder{fromImage, key("cat"), 1}), "refused content does not count")

	read := s.Requests("GET /v2/catalog/blobs/")
	w.pass(t, 2*firstReload)
	require.Contains(t, w.afterCheck(t, "cat").Message, "together, at most 512 MiB are allowed")
	require.Equal(t, read, s.Requests("GET /v2/catalog/blobs/"))

	w.images.space.release(other)
	require.True(t, w.isRetried(t, true))
	require.Eventually(t, func() bool { return w.reconcile(t, "cat").Message == "" }, time.Minute, 10*time.Millisecond)
	require.Len(t, kept(), 3)
	w.forget(t.Context(), key("cat"), w.Store.Delete)
	require.Empty(t, kept(), "dropped content is deleted")
}

func TestReplacedContentIsDeleted(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", carrying)
	w := running(t, catalogSource("cat", polled(ref, "10m")))
	kept := w.counted(t)
	requireReady(t, w.afterCheck(t, "cat"))
	first := kept()
	push(t, s, "catalog:v1", otherCatalog)
	w.pass(t, 12*time.Minute)
	requireReady(t, w.afterCheck(t, "cat"))
	require.Len(t, kept(), 3)
	for _, path := range first {
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestReadingLeavesSpaceForOthers(t *testing.T) {
	work := newWorkBudget("global")
	newRoom := func(namespace, name string) *room {
		return &room{work: work, memory: newBudget("global"), h: holder{by: fromImage, key: types.NamespacedName{Namespace: namespace, Name: name}}}
	}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, newRoom("t1", name).take(maxTenantFiles+maxTenantContents))
	}
	require.ErrorContains(t, newRoom("t1", "c").take(1), "of temporary disk space", "a namespace is limited")
	require.NoError(t, newRoom("t2", "a").take(maxTenantFiles+maxTenantContents))
	late := newRoom("t3", "a")
	require.NoError(t, late.take(leastNamespaceWork), "each namespace has a minimum")
	require.NoError(t, newRoom("global", "a").take(8<<30), "the global catalog namespace has no limit")
	for _, name := range []string{"a", "b", "c", "d"} {
		_ = newRoom("t4", name).take(maxTenantContents)
	}
	require.ErrorContains(t, late.take(2*maxTenantContents), "the catalogs of all tenants")
	late.release()
	late.release()
	require.Zero(t, work.holds(late.h))
	require.Contains(t, work.wanted, late.h.key, "it waits")
	again := newRoom("t3", "a")
	again.release()
	require.NotContains(t, work.wanted, late.h.key, "it was read with less")
}

func TestLimitsForTenantsAreLower(t *testing.T) {
	i := &images{budget: newBudget("global")}
	require.Equal(t, imageLimits{}, i.limits("global"))
	require.Equal(t, imageLimits{files: maxTenantFiles, contents: maxTenantContents, unpacked: maxTenantUnpacked, names: maxTenantNames}, i.limits("t1"))
}

// A catalog that yields its turn still counts toward the budget while it waits.
func TestHalfParsedImagesShareTheBudgetOfTheirNamespace(t *testing.T) {
	store, dir := onDisk(t), t.TempDir()
	text := goodCatalog
	for n := range 10 {
		text += fmt.Sprintf("---\nschema: olm.bundle\npackage: a\nname: b.v%d\nimage: i\nproperties: [{type: x, value: %s}]\n", n, strings.Repeat("x", 100<<10))
	}
	write(t, filepath.Join(dir, "catalog.yaml"), text)
	synctest.Test(t, func(t *testing.T) {
		i := newImages(nil, store, newBudget("global"), func(types.NamespacedName) {}, clock.RealClock{})
		parsed := i.room(holder{key: types.NamespacedName{Namespace: "t1", Name: "a"}})
		mine, ctx, err := i.parses.tenants.Join(t.Context(), "t1")
		require.NoError(t, err)
		var other *turns.Turn
		go func() { other, _, _ = i.parses.tenants.Join(t.Context(), "t2") }()
		synctest.Wait()
		time.Sleep(parseSlice + time.Millisecond)
		var read pull.Catalog
		loader, calls := i.loader(mine, parsed), 0
		yield := loader.Between
		loader.Between = func(ctx context.Context) error {
			if calls++; calls == 1 {
				return nil // the file has not been read yet
			}
			return yield(ctx)
		}
		go func() {
			read, err = pull.Options{Disk: store}.Parse(ctx, pull.Files{Key: "key", Dir: dir}, loader)
			mine.Leave()
		}()
		synctest.Wait()
		require.NotNil(t, other, "the other catalog has its turn")
		require.Nil(t, read.Snapshot)
		half := i.budget.holds(parsed.h)
		require.Positive(t, half)
		late := i.room(holder{key: types.NamespacedName{Namespace: "t1", Name: "b"}})
		require.NoError(t, late.keep(maxNamespaceBytes-half))
		require.ErrorContains(t, late.keep(maxNamespaceBytes-half+1), "together, at most 64 MiB are allowed")
		late.release()
		other.Leave()
		synctest.Wait()
		require.NoError(t, err)
		require.GreaterOrEqual(t, i.budget.holds(parsed.h), read.Size())
		parsed.release()
		require.Empty(t, i.budget.used)
		pull.Drop(read.Snapshot)
	})
}

func TestParsedContentCountsOnlyBeyondTheReplacedContent(t *testing.T) {
	i := newImages(nil, nil, newBudget("global"), func(types.NamespacedName) {}, clock.RealClock{})
	served := holder{fromImage, types.NamespacedName{Namespace: "t1", Name: "a"}, 0}
	i.budget.max = 4 << 20
	require.NoError(t, i.budget.take(served, 3<<20))
	var woken []types.NamespacedName
	i.budget.wake = func(key types.NamespacedName) { woken = append(woken, key) }
	next := i.room(served)
	require.NoError(t, next.keep(2<<20))
	require.Zero(t, i.budget.holds(next.h))
	require.NoError(t, next.keep(4<<20))
	require.EqualValues(t, 1<<20, i.budget.holds(next.h))
	err := next.keep(5 << 20)
	require.EqualError(t, err, "the catalog's content needs 5 MiB of memory, and the other catalogs of namespace t1 use 0 MiB; together, at most 4 MiB are allowed")
	require.Equal(t, crowded{errors.Unwrap(err), 5 << 20}, err)
	next.release()
	require.Empty(t, woken, "a CatalogSource is not woken when it releases its own usage")
	require.Equal(t, map[holder]int64{served: 3 << 20}, i.budget.used)
}

// The images of bundles of all tenants are unpacked one after the other, and those of the global catalogs do not wait for them.
func TestUnpacksBundlesOneAfterTheOther(t *testing.T) {
	i := newImages(nil, nil, newBudget("global"), nil, clock.RealClock{})
	_, first, err := i.unpack(t.Context(), "a")
	require.NoError(t, err)
	_, other, err := i.unpack(t.Context(), "global")
	require.NoError(t, err)
	other()
	next := make(chan func())
	go func() {
		_, end, err := i.unpack(t.Context(), "b")
		assert.NoError(t, err)
		next <- end
	}()
	tenants := i.unpacks.turnsOf("b")
	require.Eventually(t, func() bool { return tenants.Waiting() == 1 }, time.Minute, time.Millisecond)
	select {
	case <-next:
		t.Fatal("two images are unpacked at the same time")
	default:
	}
	first()
	(<-next)()
	require.Zero(t, tenants.LateFor, "the image of a bundle cannot yield")
	require.NotZero(t, i.parses.turnsOf("b").LateFor)

	key := types.NamespacedName{Namespace: "a", Name: "catalog"}
	take, release := i.spool(key)
	require.NoError(t, take(leastNamespaceWork))
	require.ErrorContains(t, take(maxNamespaceWork), "temporary disk space")
	release()
	require.Empty(t, i.work.used)
}
