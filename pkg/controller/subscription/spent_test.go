package subscription

import (
	"context"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

func TestAPlanIsSpentWhenOnlyItsVersionsAreDeleted(t *testing.T) {
	csv := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op.v1"}}
	proofs.Mark(&csv, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ns"}, CSV: csv.Name, Proofs: proofs.Keys()})
	copied, foreign := *csv.DeepCopy(), *csv.DeepCopy()
	copied.Labels[names.LabelCopiedFrom] = "elsewhere"
	foreign.Labels = nil
	sub := subscription("a", "")
	for _, row := range []struct {
		name   string
		cached []operatorsv1alpha1.ClusterServiceVersion
		live   []client.Object
		spent  bool
		reads  int
	}{
		{"the version and the Subscription are deleted", nil, nil, false, 2},
		{"the version is deleted", nil, []client.Object{sub}, true, 2},
		{"the cache has the version", []operatorsv1alpha1.ClusterServiceVersion{csv}, []client.Object{sub, &csv}, false, 0},
		{"the cache has the version, labeled as a copy", []operatorsv1alpha1.ClusterServiceVersion{copied}, []client.Object{sub, &copied}, false, 0},
		{"the cache does not have the version yet", nil, []client.Object{sub, &csv}, false, 1},
		{"the cache has another owner's version of the same name", []operatorsv1alpha1.ClusterServiceVersion{foreign}, []client.Object{sub, &foreign}, true, 2},
		{"the cache still has another owner's version of the same name", []operatorsv1alpha1.ClusterServiceVersion{foreign}, []client.Object{sub, &csv}, false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			var live []client.Object
			for _, obj := range row.live {
				live = append(live, obj.DeepCopyObject().(client.Object))
			}
			reads := 0
			counting := interceptor.NewClient(fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(live...).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
					reads++
					return c.Get(ctx, key, obj, o...)
				},
			})
			plan := pins("a", "op.v1")
			plan.Pins[0].Subscription = sub.Name
			ip := made(t, plan, 1)
			ip.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete
			r := &Reconciler{Options: Options{Live: counting}}
			spent, err := r.isSpent(t.Context(), &world{namespace: "ns", proofs: proofs.Keys(), csvs: row.cached}, &ip, plan)
			require.NoError(t, err)
			require.Equal(t, row.spent, spent)
			require.Equal(t, row.reads, reads)
		})
	}
}
