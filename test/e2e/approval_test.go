package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// awaitingApproval returns a tenant whose account has all permissions and whose plan waits for approval.
func awaitingApproval(t *testing.T) (*env.Tenant, *operatorsv1alpha1.InstallPlan) {
	t.Helper()
	tn := cluster.Tenant(t)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(catalogSample))
	subscribe(tn, func(s *operatorsv1alpha1.SubscriptionSpec) { s.InstallPlanApproval = operatorsv1alpha1.ApprovalManual })
	var ip *operatorsv1alpha1.InstallPlan
	tn.Eventually(func(c *assert.CollectT) {
		ip = tn.Plan(c)
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, ip.Status.Phase)
		assert.NotEmpty(c, ip.Status.Plan)
	})
	return tn, ip
}

func approve(t *testing.T, tn *env.Tenant) {
	t.Helper()
	ip := tn.Plan(t)
	before := ip.DeepCopy()
	ip.Spec.Approved = true
	require.NoError(t, cluster.Client.Patch(t.Context(), ip, client.MergeFrom(before)))
}

func TestAManualPlanWaitsForApproval(t *testing.T) {
	t.Parallel()
	tn, ip := awaitingApproval(t)
	require.False(t, ip.Spec.Approved)
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionInstallPlanPending, string(operatorsv1alpha1.InstallPlanPhaseRequiresApproval), "")
	for _, step := range ip.Status.Plan {
		require.Equal(t, operatorsv1alpha1.StepStatusUnknown, step.Status)
	}
	tn.NothingWritten()
	for _, command := range []string{
		"kubectl remit plan show " + ip.Name + " -n " + tn.Namespace,
		"kubectl patch installplan " + ip.Name + " -n " + tn.Namespace + ` --type merge --patch '{"spec":{"approved":true}}'`,
	} {
		require.Contains(t, ip.Status.Message, command)
	}

	approve(t, tn)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
}

// As OLM's clients do, the author updates the status with the resource version that the create request returned.
func TestRefusesStepsOfAManuallyCreatedPlan(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	ip := &operatorsv1alpha1.InstallPlan{ObjectMeta: tn.Meta("by-hand"), Spec: operatorsv1alpha1.InstallPlanSpec{
		ClusterServiceVersionNames: []string{"any.v1"}, Approval: operatorsv1alpha1.ApprovalAutomatic, Approved: true,
	}}
	tn.Create(ip)
	ip.Status = operatorsv1alpha1.InstallPlanStatus{Phase: operatorsv1alpha1.InstallPlanPhaseInstalling, CatalogSources: []string{}, Plan: []*operatorsv1alpha1.Step{{
		Resolving: "any.v1", Status: operatorsv1alpha1.StepStatusUnknown,
		Resource: operatorsv1alpha1.StepResource{Version: "v1", Kind: "ConfigMap", Name: "injected", Manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"injected"}}`},
	}}}
	require.NoError(t, cluster.Client.Status().Update(t.Context(), ip), "no status was written in between")
	tn.Eventually(func(c *assert.CollectT) {
		got := &operatorsv1alpha1.InstallPlan{}
		assert.NoError(c, tn.Get("by-hand", got))
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseFailed, got.Status.Phase)
		assert.Equal(c, operatorsv1alpha1.InstallPlanReasonPlanUnknown, got.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Reason)
	})
	tn.NothingWritten()
}

func TestDoesNotExecuteAPlanWithEditedPins(t *testing.T) {
	t.Parallel()
	tn, ip := awaitingApproval(t)
	before := ip.DeepCopy()
	ip.Annotations[names.AnnotationPlan] = `[{"bundle":"something-else"}]`
	ip.Spec.Approved = true
	require.NoError(t, cluster.Client.Patch(t.Context(), ip, client.MergeFrom(before)))

	tn.Eventually(func(c *assert.CollectT) {
		ip := tn.Plan(c)
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseFailed, ip.Status.Phase)
		got := ip.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
		assert.Equal(c, operatorsv1alpha1.InstallPlanReasonPlanUnknown, got.Reason)
		assert.Contains(c, got.Message, "the InstallPlan was edited")
	})
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionInstallPlanFailed, string(operatorsv1alpha1.InstallPlanReasonPlanUnknown), "the InstallPlan was edited")
	tn.NothingWritten()
}

// Steps that a tenant writes into the status are not installed; they are replaced before a user can approve them.
func TestRecomputesStepsThatATenantWroteIntoTheStatus(t *testing.T) {
	t.Parallel()
	tn, ip := awaitingApproval(t)
	before := ip.DeepCopy()
	ip.Status.Plan = append(ip.Status.Plan, &operatorsv1alpha1.Step{
		Resolving: bundle.CSV, Status: operatorsv1alpha1.StepStatusUnknown,
		Resource: operatorsv1alpha1.StepResource{Version: "v1", Kind: "ConfigMap", Name: "forged",
			Manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged"}}`},
	})
	ip.Status.Plan[0].Resource.Manifest = "{}"
	require.NoError(t, cluster.Client.Status().Patch(t.Context(), ip, client.MergeFrom(before)))

	tn.Eventually(func(c *assert.CollectT) { assert.Equal(c, before.Status.Plan, tn.Plan(c).Status.Plan) })
	approve(t, tn)
	done := tn.Complete()
	require.Len(t, done.Status.Plan, len(before.Status.Plan))
	require.Equal(t, before.Status.Plan[0].Resource.Manifest, done.Status.Plan[0].Resource.Manifest)
	require.True(t, apierrors.IsNotFound(tn.Get("forged", &corev1.ConfigMap{})))
}
