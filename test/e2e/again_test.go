package e2e

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// deleteCSV deletes a ClusterServiceVersion but not its Subscription, and returns it.
func deleteCSV(tn *env.Tenant, name string) *operatorsv1alpha1.ClusterServiceVersion {
	tn.T.Helper()
	csv := tn.CSV(tn.T, name)
	require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), csv))
	return csv
}

// comesBack waits until a deleted ClusterServiceVersion has been recreated and installed.
func comesBack(tn *env.Tenant, old *operatorsv1alpha1.ClusterServiceVersion) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		now := &operatorsv1alpha1.ClusterServiceVersion{}
		if assert.NoError(c, tn.Get(old.Name, now)) {
			assert.NotEqual(c, old.UID, now.UID)
		}
	})
	tn.Installed(old.Name)
}

// statusSays waits until the output of "kubectl remit status" for the namespace contains all of the given texts.
func statusSays(tn *env.Tenant, texts ...string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		out := tn.RemitStatus()
		for _, text := range texts {
			assert.Contains(c, out, text)
		}
	})
}

func TestRecreatesAClusterServiceVersionThatIsDeletedWithoutItsSubscription(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable", func(s *operatorsv1alpha1.SubscriptionSpec) { s.StartingCSV = "a.v1.0.0" })
	tn.Installed("a.v1.0.0")
	for range 2 {
		comesBack(tn, deleteCSV(tn, "a.v1.0.0"))
		inState(tn, "a", operatorsv1alpha1.SubscriptionStateAtLatest, "a.v1.0.0", "a.v1.0.0")
	}

	tn.Publish("catalog", releasesV1, releasesV2)
	tn.Installed("a.v2.0.0")
	comesBack(tn, deleteCSV(tn, "a.v2.0.0")) // the starting version is installed again, followed by the same upgrade
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateAtLatest, "a.v2.0.0", "a.v2.0.0")
}

func TestStatusReportsWhatADeletedClusterServiceVersionWaitsFor(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable", func(s *operatorsv1alpha1.SubscriptionSpec) { s.InstallPlanApproval = operatorsv1alpha1.ApprovalManual })
	tn.Approve("a.v1.0.0")
	tn.Installed("a.v1.0.0")

	csv := tn.CSV(t, "a.v1.0.0")
	finalizers := func(text string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+text+`}}`))
		require.NoError(t, cluster.Client.Patch(t.Context(), csv.DeepCopy(), patch))
	}
	finalizers(`["test.example.com/stays"]`)
	old := deleteCSV(tn, "a.v1.0.0")
	statusSays(tn, "ClusterServiceVersionBeingDeleted", "Remit will reinstall it when the deletion completes")
	finalizers(`null`)
	statusSays(tn, "RequiresApproval")
	tn.Approve("a.v1.0.0")
	comesBack(tn, old)
}

// As in OLM, a deleted plan is replaced by one with a new name, which needs its own approval.
func TestADeletedPlanComesBackUnderANewName(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable", func(s *operatorsv1alpha1.SubscriptionSpec) { s.InstallPlanApproval = operatorsv1alpha1.ApprovalManual })
	pending := func(not string) *operatorsv1alpha1.InstallPlan {
		ip := &operatorsv1alpha1.InstallPlan{}
		tn.Eventually(func(c *assert.CollectT) {
			ip = tn.Plan(c)
			assert.NotEqual(c, not, ip.Name)
			assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, ip.Status.Phase)
			assert.Equal(c, []string{"a.v1.0.0"}, ip.Spec.ClusterServiceVersionNames)
			st := subscriptions(t, tn)["a"].Status
			if assert.NotNil(c, st.InstallPlanRef) {
				assert.Equal(c, ip.Name, st.InstallPlanRef.Name)
				assert.Equal(c, ip.UID, st.InstallPlanRef.UID)
				assert.Equal(c, ip.Spec.Generation, st.InstallPlanGeneration)
				assert.Equal(c, "a.v1.0.0", st.CurrentCSV)
				assert.Equal(c, operatorsv1alpha1.SubscriptionState(operatorsv1alpha1.SubscriptionStateUpgradePending), st.State)
			}
		})
		return ip
	}
	name := ""
	for range 3 {
		ip := pending(name)
		require.NoError(t, cluster.Client.Delete(t.Context(), ip))
		name = ip.Name
	}
	pending(name)
	tn.Approve("a.v1.0.0")
	tn.Installed("a.v1.0.0")
}

// The ClusterServiceVersion is the first object of a plan and the PodDisruptionBudget the last one. A quota stops the plan between them.
func TestAnInstallIsFinishedAfterItsPlanIsDeleted(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*env.Tenant, *operatorsv1alpha1.InstallPlan){
		"by a user": func(tn *env.Tenant, ip *operatorsv1alpha1.InstallPlan) {
			require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), ip))
		},
		"with its Subscription": func(tn *env.Tenant, _ *operatorsv1alpha1.InstallPlan) {
			sub := subscriptions(tn.T, tn)["a"]
			require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), sub))
			tn.Subscribe("catalog", "a", "stable")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := following(t)
			tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: []string{"get", "create", "patch", "delete"}})
			tn.Publish("catalog", releasesV1+" guarded")
			quota := &corev1.ResourceQuota{ObjectMeta: tn.Meta("none"), Spec: corev1.ResourceQuotaSpec{
				Hard: corev1.ResourceList{"count/rolebindings.rbac.authorization.k8s.io": resource.MustParse("0")}}}
			tn.Create(quota)
			tn.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, tn.Get(quota.Name, quota))
				assert.NotEmpty(c, quota.Status.Hard)
			})
			tn.Subscribe("catalog", "a", "stable")
			tn.PlanSays(componentFailed, "exceeded quota: none")
			ip := tn.Plan(t)
			require.NotEmpty(t, tn.CSV(t, "a.v1.0.0").UID)

			remove(tn, ip)
			tn.Eventually(func(c *assert.CollectT) {
				list := &operatorsv1alpha1.InstallPlanList{}
				assert.NoError(c, cluster.Client.List(t.Context(), list, client.InNamespace(tn.Namespace)))
				if assert.Len(c, list.Items, 1) {
					assert.NotEqual(c, ip.Name, list.Items[0].Name)
				}
			})
			require.NoError(t, cluster.Client.Delete(t.Context(), quota))
			tn.Complete()
			require.NoError(t, tn.Get("a", &policyv1.PodDisruptionBudget{}))
			tn.Installed("a.v1.0.0")
		})
	}
}

// OLM reports a version as installed, and as the latest, as soon as it exists. Tools wait for this state.
func TestASubscriptionIsAtTheLatestVersionBeforeItHasSucceeded(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1+" global")
	tn.Subscribe("catalog", "a", "stable")
	tn.Eventually(func(c *assert.CollectT) {
		assert.Equal(c, operatorsv1alpha1.CSVPhaseFailed, tn.CSV(c, "a.v1.0.0").Status.Phase)
	})
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateAtLatest, "a.v1.0.0", "a.v1.0.0")
}

// A plan that waits for permissions and has not written anything is superseded when the Subscription changes, and so is
// its successor when the Subscription changes back.
func TestAnotherStartingCSVSupersedesAPlanThatHasWrittenNothing(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1, releasesV2+" reads=secrets", releasesV3+" reads=nodes")
	startWith := func(csv string) func(*operatorsv1alpha1.SubscriptionSpec) {
		return func(s *operatorsv1alpha1.SubscriptionSpec) {
			s.StartingCSV, s.InstallPlanApproval = csv, operatorsv1alpha1.ApprovalManual
		}
	}
	sub := tn.Subscribe("catalog", "a", "stable", startWith("a.v2.0.0"))
	isMissing := func(version, resource string) {
		tn.Approve(version)
		says(tn, "a", names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, resource)
		inState(tn, "a", operatorsv1alpha1.SubscriptionStateUpgradePending, version, "")
	}
	change := func(csv string) {
		require.NoError(t, tn.Get("a", sub))
		before := sub.DeepCopy()
		sub.Spec.StartingCSV = csv
		require.NoError(t, cluster.Client.Patch(t.Context(), sub, client.MergeFrom(before)))
	}
	isMissing("a.v2.0.0", "secrets")
	change("a.v3.0.0")
	isMissing("a.v3.0.0", "nodes")
	change("a.v2.0.0") // the first plan for a.v2.0.0 was superseded
	isMissing("a.v2.0.0", "secrets")
	change("a.v1.0.0")
	tn.Approve("a.v1.0.0")
	tn.Installed("a.v1.0.0")
}

// The user deletes the Subscription and, immediately afterwards, the ClusterServiceVersion: either event can arrive first.
func TestAnUninstalledOperatorIsNotReinstalled(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1)
	for range 5 {
		sub := tn.Subscribe("catalog", "a", "stable")
		tn.Installed("a.v1.0.0")
		require.NoError(t, cluster.Client.Delete(t.Context(), sub))
		deleteCSV(tn, "a.v1.0.0")
		tn.Eventually(func(c *assert.CollectT) {
			assert.True(c, apierrors.IsNotFound(tn.Get("a.v1.0.0", &operatorsv1alpha1.ClusterServiceVersion{})))
		})
		require.Never(t, func() bool { return tn.Get("a.v1.0.0", &operatorsv1alpha1.ClusterServiceVersion{}) == nil }, time.Second, 100*time.Millisecond)
	}
}
