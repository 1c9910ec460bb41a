package subscription

import (
	"math"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/proofs"
)

func subscription(uid string, approval operatorsv1alpha1.Approval) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sub", UID: types.UID(uid)},
		Spec:       &operatorsv1alpha1.SubscriptionSpec{Package: "op", CatalogSource: "cat", CatalogSourceNamespace: "ns", InstallPlanApproval: approval},
	}
}

func pins(uid, bundle string) resolver.Plan {
	return resolver.Plan{Namespace: "ns", Pins: []resolver.Pin{{SubscriptionUID: types.UID(uid), Package: "op", Bundle: bundle}}}
}

// made returns an InstallPlan with the given pins and generation.
func made(t *testing.T, p resolver.Plan, generation int) operatorsv1alpha1.InstallPlan {
	t.Helper()
	ip := desiredPlan(&world{namespace: "ns"}, []*operatorsv1alpha1.Subscription{subscription("a", operatorsv1alpha1.ApprovalAutomatic)}, p)
	ip.Spec.Generation = generation
	return *ip
}

func TestDesiredPlan(t *testing.T) {
	for _, row := range []struct {
		approval operatorsv1alpha1.Approval
		approved bool
	}{{operatorsv1alpha1.ApprovalAutomatic, true}, {operatorsv1alpha1.ApprovalManual, false}, {"", true}} {
		w := &world{namespace: "ns", plans: []operatorsv1alpha1.InstallPlan{made(t, pins("x", "x"), 7), made(t, pins("y", "y"), 2)}}
		ip := desiredPlan(w, []*operatorsv1alpha1.Subscription{subscription("a", row.approval)}, pins("a", "op.v1"))
		require.Equal(t, row.approved, ip.Spec.Approved)
		require.Regexp(t, "^install-", ip.Name)
		require.Equal(t, 8, ip.Spec.Generation)
		require.Equal(t, []string{"op.v1"}, ip.Spec.ClusterServiceVersionNames)
		require.Contains(t, ip.Labels, "operators.coreos.com/op.ns")
		require.Equal(t, types.UID("a"), ip.OwnerReferences[0].UID)
		require.False(t, *ip.OwnerReferences[0].BlockOwnerDeletion)
		_, err := resolver.Decode("ns", ip.Name, ip.Annotations[names.AnnotationPlan])
		require.NoError(t, err, "the plan's name commits to its content")
		w.plans[0].Spec.Generation = math.MaxInt
		require.Equal(t, math.MaxInt, desiredPlan(w, nil, pins("a", "op.v1")).Spec.Generation, "it does not overflow")
	}
}

func TestPlanOfReturnsTheNewestPlan(t *testing.T) {
	old, newest, other := made(t, pins("a", "op.v1"), 1), made(t, pins("a", "op.v2"), 2), made(t, pins("b", "op.v3"), 3)
	tampered := made(t, pins("a", "op.v0"), math.MaxInt)
	tampered.CreationTimestamp = metav1.NewTime(time.Time{}.Add(-time.Hour))
	edited, leaving := made(t, pins("a", "op.v4"), 4), made(t, pins("a", "op.v5"), 5)
	edited.Annotations[names.AnnotationPlan] = old.Annotations[names.AnnotationPlan]
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	w := &world{namespace: "ns", plans: []operatorsv1alpha1.InstallPlan{newest, tampered, old, other, edited, leaving}}
	require.Equal(t, newest.Name, w.planOf(subscription("a", "")).plan.Name)
	require.Nil(t, w.planOf(subscription("c", "")).plan)
}

func TestInstalledForReturnsTheNewestCSV(t *testing.T) {
	csv := func(name, pkg string, age time.Duration) operatorsv1alpha1.ClusterServiceVersion {
		owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: "ns"}, CSV: name, Proofs: proofs.Keys()}
		out := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(0, 0).Add(-age)),
		}}
		proofs.Mark(&out, owner)
		return out
	}
	copied, leaving, foreign, forged := csv("copied", "op", 0), csv("leaving", "op", 0), csv("foreign", "op", 0), csv("forged", "op", 0)
	copied.Labels[names.LabelCopiedFrom] = "elsewhere"
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	foreign.Labels = nil
	forged.Annotations = nil
	w := &world{namespace: "ns", proofs: proofs.Keys(), csvs: []operatorsv1alpha1.ClusterServiceVersion{
		csv("op.v1", "op", 2*time.Hour), csv("op.v2", "op", time.Hour), csv("other.v1", "other", 0), copied, leaving, foreign, forged,
	}}
	require.Equal(t, "op.v2", w.installedFor(subscription("a", "")).Name)
	require.Nil(t, (&world{namespace: "ns"}).installedFor(subscription("a", "")))
}

func TestAPlanInFlightIsFixedUnlessItWaitsForApprovalOrContent(t *testing.T) {
	unavailable := because(names.ReasonBundleContentUnavailable, "")
	for _, row := range []struct {
		name     string
		approval operatorsv1alpha1.Approval
		approved bool
		phase    planPhase
		reason   operatorsv1alpha1.InstallPlanCondition
		want     bool
	}{
		{"automatic", operatorsv1alpha1.ApprovalAutomatic, true, operatorsv1alpha1.InstallPlanPhaseInstalling, because("X", ""), true},
		{"a manual plan that is approved", operatorsv1alpha1.ApprovalManual, true, operatorsv1alpha1.InstallPlanPhaseInstalling, because("X", ""), true},
		{"a manual plan that is not approved", operatorsv1alpha1.ApprovalManual, false, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, because("X", ""), false},
		{"a plan whose content is unavailable", operatorsv1alpha1.ApprovalAutomatic, true, operatorsv1alpha1.InstallPlanPhaseInstalling, unavailable, false},
		{"complete", operatorsv1alpha1.ApprovalAutomatic, true, operatorsv1alpha1.InstallPlanPhaseComplete, because("X", ""), false},
		{"failed", operatorsv1alpha1.ApprovalAutomatic, true, operatorsv1alpha1.InstallPlanPhaseFailed, because("X", ""), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			ip := made(t, pins("a", "op.v1"), 1)
			ip.Spec.Approval, ip.Spec.Approved = row.approval, row.approved
			ip.Status.Phase, ip.Status.Conditions = row.phase, []operatorsv1alpha1.InstallPlanCondition{row.reason}
			require.Equal(t, row.want, inFlight(&ip) && isFixed(&ip))
			w := &world{namespace: "ns", plans: []operatorsv1alpha1.InstallPlan{ip}}
			require.Equal(t, "op.v1", w.planOf(subscription("a", "")).pin.Bundle)
		})
	}
}
