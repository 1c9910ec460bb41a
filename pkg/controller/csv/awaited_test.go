package csv

import (
	"errors"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/recorded"
)

// deletedNow deletes the ClusterServiceVersion, and sets the clock to the time of its deletion.
func deletedNow(w *world) {
	w.Delete(w.csv)
	recorded.Edit(w.Server, w.csv, func(*operatorsv1alpha1.ClusterServiceVersion) {}) // reads the time
	w.clock.SetTime(w.csv.DeletionTimestamp.Time)
}

// Users of a target can refuse the account to delete what was created there. The removal waits for their permission only for a while.
func TestATargetDelaysARemovalOnlyForAWhile(t *testing.T) {
	t.Parallel()
	finalizing := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		// The first reconcile sets the finalizer, because the operator has objects in other namespaces.
		w.inTargets(expelled("t2"))
		require.Contains(t, w.csv.Finalizers, names.FinalizerCSV)
		deletedNow(w)
		return w
	}
	t.Run("elsewhere", func(t *testing.T) {
		t.Parallel()
		w := finalizing(t)
		got := w.settle()
		require.True(t, w.Has(w.csv))
		require.Equal(t, maxAwaited, got.after, "the only wake is at the end")
		require.Nil(t, w.operatorBinding("t3"))
		passing(maxAwaited - time.Second)(w)
		require.Equal(t, time.Second, w.settle().after)
		require.True(t, w.Has(w.csv))

		passing(time.Second)(w)
		got = w.settle()
		require.False(t, w.Has(w.csv))
		require.NotNil(t, w.operatorBinding("t2"), "it is found without the ClusterServiceVersion")
		require.Contains(t, strings.Join(got.writes, "\n"), "to clean up, run: kubectl delete rolebinding demo.v1.0.0-demo-# -n t2")
	})
	t.Run("a refusal that RBAC does not show", func(t *testing.T) {
		t.Parallel()
		w := finalizing(t)
		w.Allow("*")
		w.Refuse("acct: delete RoleBinding t2/demo.v1.0.0-demo-#", apierrors.NewForbidden(rbacv1.Resource("rolebindings"), "demo", errors.New("no")))
		require.NotEmpty(t, w.settle().failed)
		passing(maxAwaited)(w)
		require.Empty(t, w.settle().failed)
		require.False(t, w.Has(w.csv))
	})
	t.Run("in the whole cluster", func(t *testing.T) {
		t.Parallel()
		w := newRemoval(t)
		w.denied = "validatingwebhookconfigurations"
		w.clock.SetTime(w.clock.Now().Add(maxAwaited))
		waiting, _ := w.remove()
		require.True(t, waiting)
	})
}
