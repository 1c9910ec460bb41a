package csv

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

func TestMoveAdvancesAsFarAsTheFactsAllow(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	for name, tt := range map[string]struct {
		facts Facts
		moves []operatorsv1alpha1.ConditionReason
		last  operatorsv1alpha1.ClusterServiceVersionPhase
	}{
		"everything already written": {
			Facts{Deployments: deployment.State{Untouched: true, Installed: true}},
			[]operatorsv1alpha1.ConditionReason{reasonRequirementsUnknown, reasonRequirementsMet, reasonInstallSuccessful, reasonWaiting}, phaseInstalling,
		},
		"waits for an InstallPlan": {
			Facts{Waits: "a plan"}, []operatorsv1alpha1.ConditionReason{reasonRequirementsUnknown}, phasePending,
		},
		"requirement missing": {
			Facts{Unmet: true}, []operatorsv1alpha1.ConditionReason{reasonRequirementsUnknown, reasonRequirementsNotMet}, phasePending,
		},
		// Without a client, nothing can be written, so a failed install would return an error.
		"write fails": {
			Facts{}, []operatorsv1alpha1.ConditionReason{reasonRequirementsUnknown, reasonRequirementsMet, reasonComponentFailed}, phaseFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.facts.CSV, tt.facts.Evaluated = csv.DeepCopy(), true
			s := &scope{csv: csv, facts: tt.facts}
			last, err := (&Reconciler{}).move(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, tt.last, last.Phase)
			require.Equal(t, tt.last, s.facts.CSV.Status.Phase)
			var reasons []operatorsv1alpha1.ConditionReason
			for _, m := range s.moves {
				reasons = append(reasons, m.Reason)
			}
			require.Equal(t, tt.moves, reasons)
			require.Len(t, s.facts.CSV.Status.Conditions, len(tt.moves))
		})
	}
}

func TestMoveEndsWhenAPhaseGoesBack(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Status.Phase = phaseInstallReady
	s := &scope{csv: csv, facts: Facts{CSV: csv.DeepCopy(), Account: &scoped.Error{Reason: scoped.AccountMissing}}}
	last, err := (&Reconciler{}).move(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, phasePending, last.Phase)
	require.Len(t, s.moves, 1)
}

// An event of another object reconciles the ClusterServiceVersion before the cache contains its new status.
func TestAVersionWhoseStatusWasReplacedIsNotReconciled(t *testing.T) {
	w := newWorld(t)
	installed(w)
	w.Delete(things())
	w.Lag(w.csv.DeepCopy())
	reconciled := func() []string {
		_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		require.NoError(t, err)
		return w.Writes()
	}
	require.Contains(t, reconciled(), "remit: patch status of ClusterServiceVersion t1/demo.v1.0.0")
	require.Empty(t, reconciled())
}

func TestOnlyTheWaitOfANewVersionIsNotReportedAtOnce(t *testing.T) {
	const half = kit.SettleTime / 2
	for _, row := range []struct {
		name         string
		age          time.Duration
		stored, next operatorsv1alpha1.ClusterServiceVersionPhase
		waits        string
		want         time.Duration
	}{
		{"its Deployments may become available", half, phaseNone, phaseInstalling, "", half},
		{"it waits for its InstallPlan", half, phaseNone, phasePending, "a plan", half},
		{"a requirement is missing", half, phaseNone, phasePending, "", 0},
		{"it has failed", half, phaseNone, phaseFailed, "", 0},
		{"it is available", half, phaseNone, phaseSucceeded, "", 0},
		{"it has a status", half, phasePending, phaseInstalling, "", 0},
		{"it is older", kit.SettleTime, phaseNone, phaseInstalling, "", 0},
		{"it was created in the future, according to this clock", -time.Second, phaseNone, phaseInstalling, "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			now := time.Now()
			stored := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-row.age))}}
			stored.Status.Phase = row.stored
			next := stored.DeepCopy()
			next.Status.Phase = row.next
			require.Equal(t, row.want, unsettled(Facts{CSV: next, Now: now, Waits: row.waits}, stored, kit.NewSettling()))
		})
	}
}

func TestAVersionThatIsHeldBackIsReportedAtOnce(t *testing.T) {
	now := time.Now()
	stored := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
	next := stored.DeepCopy()
	next.Status.Phase = phasePending
	require.Zero(t, unsettled(Facts{CSV: next, Now: now, Waits: "busy", HeldBack: "busy"}, stored, kit.NewSettling()))
}
