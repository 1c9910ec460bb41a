package installplan

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// silent is the reader of a registry that does not respond.
type silent struct{}

func (silent) Content(ctx context.Context, _, _, _ string) (*catalog.Content, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A plan whose registry does not respond gives back its worker, and is retried.
func TestAPlanReadsBundlesForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &catalog.Store{}
		store.Put(&catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "cat"}, Reader: silent{}})
		plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plan"}}
		s := &run{
			reconciler: &Reconciler{Options: Options{Catalogs: store}}, saved: plan, plan: plan.DeepCopy(), group: &operatorsv1.OperatorGroup{},
			content: resolver.Plan{Namespace: "ns", Pins: []resolver.Pin{{CatalogNamespace: "ns", Catalog: "cat", Package: "op", Bundle: "op.v1"}}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		_, err := makeSteps(ctx, s)
		require.Equal(t, resolver.ReadTime, time.Since(began))
		var waits *refused
		require.ErrorAs(t, err, &waits)
		require.EqualValues(t, names.ReasonBundleContentUnavailable, waits.reason)
		require.ErrorContains(t, err, "takes longer than 30s in total; this will be retried")
	})
}
