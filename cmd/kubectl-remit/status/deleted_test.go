package status

import (
	"bytes"
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
)

func TestReadsOnlyTheSecretsOfCertificates(t *testing.T) {
	csv := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: objectMeta("op.v1")}
	csv.Status.RequirementStatus = []operatorsv1alpha1.RequirementStatus{
		{Version: "v1", Kind: "Secret", Message: "Native API exists"},
		{Version: "v1", Kind: "Secret", Name: "here"}, {Version: "v1", Kind: "Secret", Name: "op-cert"},
	}
	c := fake.NewClientBuilder().WithObjects(&corev1.Secret{ObjectMeta: objectMeta("here")}).Build()
	g, budget := &Group{Namespace: "ns"}, maxCompared
	require.NoError(t, (&world{}).fillDeletedSecrets(t.Context(), c, g, &csv, &budget))
	require.Equal(t, []Block{{"ClusterServiceVersion", "op.v1", "ObjectDeleted", "", "Secret ns/op-cert was deleted. Remit recreates deleted Secrets within 10 minutes"}}, g.Blocked)
}

func TestReportsOneRemedyForAllDeletedObjectsOfAVersion(t *testing.T) {
	owned := func(csv, name string) step.Step {
		obj := &unstructured.Unstructured{}
		obj.SetAPIVersion("v1")
		obj.SetKind("ConfigMap")
		obj.SetNamespace("ns")
		obj.SetName(name)
		return step.Step{Object: obj, Owner: ownerutil.Owner{CSV: csv}}
	}
	c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: objectMeta("here")}).Build()
	g, budget := &Group{Namespace: "ns"}, maxCompared
	steps := []step.Step{owned("a.v1", "one"), owned("b.v1", "two"), owned("a.v1", "here"), owned("a.v1", "three")}
	require.NoError(t, fillDeletedSteps(t.Context(), c, g, steps, &budget))
	const remedy = " deleted. To restore what was deleted, delete the ClusterServiceVersion: Remit installs this version again, and the operator restarts: kubectl delete csv "
	require.Equal(t, []Block{
		{"ClusterServiceVersion", "a.v1", "ObjectDeleted", "", "ConfigMap ns/one, ConfigMap ns/three were" + remedy + "a.v1 -n ns"},
		{"ClusterServiceVersion", "b.v1", "ObjectDeleted", "", "ConfigMap ns/two was" + remedy + "b.v1 -n ns"},
	}, g.Blocked)
}

func TestAMessageNamesAtMostTwentyDeletedObjects(t *testing.T) {
	var names []string
	for i := range maxListed + 2 {
		names = append(names, fmt.Sprintf("Secret ns/s%d", i))
	}
	require.Contains(t, deletedBlock("op.v1", names, "").Message, "Secret ns/s18, Secret ns/s19 and 2 more were deleted")
	require.NotContains(t, deletedBlock("op.v1", names[:maxListed], "").Message, "more")
}

func TestNotesAVersionWhosePlanDoesNotContainManifests(t *testing.T) {
	plan := func(namespace, csv string, phase operatorsv1alpha1.InstallPlanPhase) operatorsv1alpha1.InstallPlan {
		out := operatorsv1alpha1.InstallPlan{}
		out.Namespace, out.Spec.ClusterServiceVersionNames, out.Status.Phase = namespace, []string{csv}, phase
		return out
	}
	w := &world{plans: []operatorsv1alpha1.InstallPlan{
		plan("ns", "unread.v1", operatorsv1alpha1.InstallPlanPhaseComplete), plan("ns", "read.v1", operatorsv1alpha1.InstallPlanPhaseComplete),
		plan("ns", "gone.v1", operatorsv1alpha1.InstallPlanPhaseComplete), plan("ns", "waits.v1", operatorsv1alpha1.InstallPlanPhaseRequiresApproval),
		plan("other", "other.v1", operatorsv1alpha1.InstallPlanPhaseComplete),
	}}
	installed := map[string]bool{"unread.v1": true, "read.v1": true, "waits.v1": true, "other.v1": true}
	g := &Group{Namespace: "ns"}
	w.noteUnreadable(g, installed, []step.Step{{Owner: ownerutil.Owner{CSV: "read.v1"}}})
	require.Equal(t, []string{"cannot determine whether objects of unread.v1 were deleted: the InstallPlan does not contain the manifests of its bundles"}, g.Notes)
}

func TestShowsTheCommandThatPrintsTheGrant(t *testing.T) {
	g := &Group{Namespace: "ns", Blocked: []Block{
		{"Subscription", "sub", "PermissionsMissing", "AccountLacksPermissions", "is missing 2 permissions"},
		{"Subscription", "sub", "ObjectsRefused", "RefusedByAPIServer", "1 object(s) were refused"},
		{"InstallPlan", "install-1", "Installing", "AccountLacksPermissions", "is missing 2 permissions"},
	}}
	var b bytes.Buffer
	g.write(&b)
	require.Contains(t, b.String(), `  Blocked:
    Subscription sub: PermissionsMissing: AccountLacksPermissions
      is missing 2 permissions
      To see everything that is missing and grant it: kubectl remit grant subscription/sub -n ns
    Subscription sub: ObjectsRefused: RefusedByAPIServer
      1 object(s) were refused
    InstallPlan install-1: Installing: AccountLacksPermissions
      is missing 2 permissions
      To see everything that is missing and grant it: kubectl remit grant installplan/install-1 -n ns
`)
}

func TestNotesWhetherADeletedPlanWasComplete(t *testing.T) {
	for c, want := range map[operatorsv1alpha1.SubscriptionCondition]string{
		{}:                           "was deleted. The operators that it installed continue to run",
		{Type: "UpgradeHeldBack"}:    "was deleted. The operators that it installed continue to run",
		{Type: "InstallPlanPending"}: "was deleted before it was complete",
		{Type: "InstallPlanFailed"}:  "was deleted before it was complete",
		{Type: "InstallPlanMissing", Reason: "IncompleteInstallPlanNotFound"}: "was deleted before it was complete",
		{Type: "InstallPlanMissing", Reason: "ReferencedInstallPlanNotFound"}: "was deleted. The operators that it installed continue to run", // of OLM
	} {
		sub := operatorsv1alpha1.Subscription{ObjectMeta: objectMeta("sub")}
		sub.Status.InstallPlanRef = &corev1.ObjectReference{Name: "install-1"}
		sub.Status.Conditions = []operatorsv1alpha1.SubscriptionCondition{{Type: c.Type, Reason: c.Reason, Status: corev1.ConditionTrue}}
		g := &Group{Namespace: "ns"}
		(&world{complete: true, subscriptions: []operatorsv1alpha1.Subscription{sub}}).fillDeletedPlans(g)
		require.Len(t, g.Notes, 1)
		require.Contains(t, g.Notes[0], "InstallPlan install-1 of Subscription sub "+want, c.Type)
	}
}
