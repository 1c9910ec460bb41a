package installplan

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A complete plan may be reconciled once more before the cache shows that it is complete. By then, its operator may
// have been uninstalled: executing the plan again would restore the operator, and nothing would remove it.
func TestDoesNotExecuteAnOutdatedPlan(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	plan := func(uid types.UID, version string) *operatorsv1alpha1.InstallPlan {
		return &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: uid, ResourceVersion: version}}
	}
	deleted := plan("a", "1")
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"test/x"}
	for name, row := range map[string]struct {
		live              *operatorsv1alpha1.InstallPlan
		started, goneOver error
	}{
		"unchanged":     {plan("a", "1"), nil, nil},
		"newer":         {plan("a", "2"), errStale, nil},
		"recreated":     {plan("b", "1"), errStale, errStale},
		"being deleted": {deleted, errStale, errStale},
		"deleted":       {nil, errStale, errStale},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if row.live != nil {
				builder = builder.WithObjects(row.live)
			}
			c := builder.Build()
			s := &run{reconciler: &Reconciler{Options: Options{Live: c, Client: c}}, saved: plan("a", "1"), plan: plan("a", "1")}
			require.ErrorIs(t, s.checkCurrent(t.Context()), row.started)
			require.ErrorIs(t, s.checkNotDeleted(t.Context()), row.goneOver)
		})
	}
}
