package operatorgroup

import (
	"context"
	"errors"
	"fmt"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
)

// Regression test: the program waited at each start until the handlers had listed a namespace's objects for each of its other objects, which
// took longer than the time after which it ends.
func TestExistingObjectsAreNotCompared(t *testing.T) {
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	at := metav1.ObjectMeta{Namespace: "ns", Name: "a"}
	lists := handlers.CountLists(t, proofs.Scheme(), func(mgr ctrl.Manager, c client.Client) error {
		r := &Reconciler{Options: Options{Client: c, Live: c, Clock: clock.RealClock{}, Proofs: proofs.Keys(), RBAC: rbac.Unreadable(errors.New("not in this test"))}, interests: &kit.Interests{}, own: &status.Own{}}
		return r.SetupWithManager(t.Context(), mgr, none)
	}, &operatorsv1.OperatorGroup{ObjectMeta: at}, &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: at})
	require.Zero(t, lists)
}

// leastAllocs returns the least number of allocations in several measurements: goroutines of other tests are counted, too.
func leastAllocs(run func()) float64 {
	out := testing.AllocsPerRun(10, run)
	for range 9 {
		out = min(out, testing.AllocsPerRun(10, run))
	}
	return out
}

// Regression test: each update of a ClusterServiceVersion sorted up to 8,000 APIs, before all other tenants' events.
func TestAnUpdateOfALabelComparesNoAPIs(t *testing.T) {
	before := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1}}
	for i := range 2000 {
		before.Spec.CustomResourceDefinitions.Owned = append(before.Spec.CustomResourceDefinitions.Owned,
			operatorsv1alpha1.CRDDescription{Name: fmt.Sprintf("a%d.example.com", i), Version: "v1", Kind: "A"})
	}
	update := func(change func(after *operatorsv1alpha1.ClusterServiceVersion)) event.UpdateEvent {
		after := before.DeepCopy()
		change(after)
		return event.UpdateEvent{ObjectOld: before, ObjectNew: after}
	}
	label := update(func(after *operatorsv1alpha1.ClusterServiceVersion) { after.Labels = map[string]string{"a": "b"} })
	name := update(func(after *operatorsv1alpha1.ClusterServiceVersion) {
		after.Generation, after.Spec.DisplayName = 2, "A"
	})
	require.LessOrEqual(t, leastAllocs(func() { require.False(t, apisChanged().Update(label)) }), 10.0)
	require.LessOrEqual(t, leastAllocs(func() { require.False(t, apisChanged().Update(name)) }), 100.0)

	removed := func(after *operatorsv1alpha1.ClusterServiceVersion) {
		after.Spec.CustomResourceDefinitions.Owned = after.Spec.CustomResourceDefinitions.Owned[1:]
	}
	for what, change := range map[string]func(*operatorsv1alpha1.ClusterServiceVersion){
		"its spec":       func(after *operatorsv1alpha1.ClusterServiceVersion) { after.Generation = 2 },
		"another object": func(after *operatorsv1alpha1.ClusterServiceVersion) { after.UID = "2" },
		"too large now": func(after *operatorsv1alpha1.ClusterServiceVersion) {
			after.Annotations = map[string]string{names.AnnotationTooLarge: "true"}
		},
	} {
		require.True(t, apisChanged().Update(update(func(after *operatorsv1alpha1.ClusterServiceVersion) {
			removed(after)
			change(after)
		})), what)
	}
}
