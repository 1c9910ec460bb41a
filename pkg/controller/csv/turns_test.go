package csv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/install/deployment"
)

// crowded gives the demo many Deployments.
func crowded(n int) change {
	return spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		specs := &s.InstallStrategy.StrategySpec.DeploymentSpecs
		for i := len(*specs); i < n; i++ {
			one := *(*specs)[0].DeepCopy()
			one.Name = fmt.Sprintf("demo-%03d", i)
			*specs = append(*specs, one)
		}
	})
}

// about returns the recorded requests about Deployments.
func about(requests []string) []string {
	return slices.DeleteFunc(requests, func(r string) bool { return !strings.Contains(r, " Deployment t1/") })
}

// A ClusterServiceVersion with many Deployments must not occupy a worker until all of them are written: other namespaces have
// their turn in between. A turn repeats no request of an earlier one.
func TestManyDeploymentsAreWrittenInTurns(t *testing.T) {
	t.Parallel()
	const all = 2*deployment.MaxWritten + 10
	w := newWorld(t)
	crowded(all)(w)
	var err error
	w.r, err = New(w.options)
	require.NoError(t, err)
	var wrote []int
	var messages []string
	started := false
	for range 8 {
		result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		require.NoError(t, err)
		writes, requests := len(about(w.Writes())), len(about(w.Requests()))
		if started { // before, collisions of all objects are looked for
			require.LessOrEqual(t, requests, 2*deployment.MaxWritten, "a turn reads only what it writes")
		}
		started = started || writes > 0
		if writes == deployment.MaxWritten {
			require.Equal(t, turnPause, result.RequeueAfter)
		}
		require.True(t, w.Has(w.csv))
		if wrote = append(wrote, writes); writes > 0 {
			messages = append(messages, w.csv.Status.Message)
		}
	}
	wrote = slices.DeleteFunc(wrote, func(n int) bool { return n == 0 })
	require.Equal(t, []int{deployment.MaxWritten, deployment.MaxWritten, 10}, wrote)
	require.Equal(t, []string{
		"installing: at least 40% of the 110 deployments have been written", "installing: at least 90% of the 110 deployments have been written",
	}, messages[:2])
	require.Contains(t, w.csv.Status.Message, "waiting for deployment demo to become ready")
}

func TestManyDeploymentsAreDeletedInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crowded(deployment.MaxWritten + 21)(w)
	settled(w)
	spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		specs := &s.InstallStrategy.StrategySpec.DeploymentSpecs
		*specs = (*specs)[:1]
	})(w)
	var deleted []int
	for range 6 {
		_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		require.NoError(t, err)
		if n := len(slices.DeleteFunc(w.Writes(), func(r string) bool { return !strings.HasPrefix(r, "acct: delete Deployment") })); n > 0 {
			deleted = append(deleted, n)
		}
	}
	require.Equal(t, []int{deployment.MaxWritten, 20}, deleted)
}

// The retry of a refused install tries a part of the Deployments.
func TestManyDeploymentsAreTriedInPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crowded(2 * deployment.MaxWritten)(w)
	limited(quota)(w)
	require.Equal(t, phaseFailed, w.settle().phase)
	w.Refuse("acct: try Deployment t1/demo", nil)
	w.Requests()
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
	require.NoError(t, err)
	tries := slices.DeleteFunc(w.Requests(), func(r string) bool { return !strings.HasPrefix(r, "acct: try Deployment") })
	require.Len(t, tries, deployment.MaxWritten)
}
