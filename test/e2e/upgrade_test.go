package e2e

import (
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env"
)

const (
	releasesV1 = "a.v1.0.0 stable"
	releasesV2 = "a.v2.0.0 stable replaces=a.v1.0.0"
	releasesV3 = "a.v3.0.0 stable replaces=a.v2.0.0"
)

// following returns a tenant whose account has the permissions that releases need.
func following(t *testing.T, edit ...func(*operatorsv1.OperatorGroup)) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.GrantReleases()
	og := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group"), Spec: operatorsv1.OperatorGroupSpec{
		ServiceAccountName: tn.GroupAccount(), TargetNamespaces: []string{tn.Namespace},
	}}
	for _, e := range edit {
		e(og)
	}
	tn.Create(og)
	return tn
}

func subscriptions(c require.TestingT, tn *env.Tenant) map[string]*operatorsv1alpha1.Subscription {
	list := &operatorsv1alpha1.SubscriptionList{}
	require.NoError(c, cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	out := map[string]*operatorsv1alpha1.Subscription{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// says waits until the Subscription's condition is True and has the given reason and text.
func says(tn *env.Tenant, sub string, condition operatorsv1alpha1.SubscriptionConditionType, reason, text string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		s := subscriptions(tn.T, tn)[sub]
		if !assert.NotNil(c, s) {
			return
		}
		got := s.Status.GetCondition(condition)
		assert.Equal(c, corev1.ConditionTrue, got.Status)
		assert.Equal(c, reason, string(got.Reason))
		assert.Contains(c, got.Message, text)
	})
}

func inState(tn *env.Tenant, sub string, state operatorsv1alpha1.SubscriptionState, current, installed string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		s := subscriptions(tn.T, tn)[sub]
		if assert.NotNil(c, s) {
			assert.Equal(c, state, s.Status.State)
			assert.Equal(c, current, s.Status.CurrentCSV)
			assert.Equal(c, installed, s.Status.InstalledCSV)
		}
	})
}

func TestUpgradesAnOperatorAndItsDependencies(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateAtLatest, "a.v1.0.0", "a.v1.0.0")

	// The catalog offers two upgrades at the same time. The second one needs another package, whose Subscription a policy
	// denies at first.
	refused := tn.Refuse(&operatorsv1alpha1.Subscription{ObjectMeta: tn.Meta("b-stable-catalog-" + tn.Namespace), Spec: &operatorsv1alpha1.SubscriptionSpec{
		CatalogSource: "catalog", CatalogSourceNamespace: tn.Namespace, Package: "b"}})
	tn.Publish("catalog", releasesV1, releasesV2, releasesV3+" needs=b:<2.0.0", "b.v1.0.0 stable")
	says(tn, "a", operatorsv1alpha1.SubscriptionBundleUnpackFailed, "EnsureInstallPlanFailed", "blocked by the test")
	refused.Remove()
	tn.Installed("a.v3.0.0", "b.v1.0.0")
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateAtLatest, "a.v3.0.0", "a.v3.0.0")
	made := subscriptions(t, tn)["b-stable-catalog-"+tn.Namespace]
	require.NotNil(t, made)
	require.Equal(t, "a", made.Annotations[names.AnnotationGeneratedBy])
	require.Equal(t, "b.v1.0.0", made.Spec.StartingCSV)

	// A dependency follows its own channel to the newest version that the constraints of the installed version allow,
	// regardless of the catalog's current content.
	tn.Publish("catalog", releasesV1, releasesV2, releasesV3, "b.v1.0.0 stable", "b.v1.1.0 stable replaces=b.v1.0.0",
		"b.v2.0.0 stable replaces=b.v1.1.0")
	tn.Installed("a.v3.0.0", "b.v1.1.0")
	inState(tn, made.Name, operatorsv1alpha1.SubscriptionStateUpgradeAvailable, "b.v1.1.0", "b.v1.1.0")
	says(tn, made.Name, names.ConditionUpgradeHeldBack, resolver.UpgradeClashes, "b.v2.0.0 of channel stable cannot replace b.v1.1.0: bundle a.v3.0.0 requires")
	require.Empty(t, subscriptions(t, tn)[made.Name].Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed).Reason)

	noted := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(t, tn.Get("a.v3.0.0", noted))
	require.Contains(t, noted.Annotations[names.AnnotationProperties], `{"type":"olm.package.required","value":{"packageName":"b","versionRange":"<2.0.0"}}`)

	tn.Publish("catalog", releasesV3, "a.v4.0.0 stable replaces=a.v3.0.0", "b.v1.1.0 stable", "b.v2.0.0 stable replaces=b.v1.1.0")
	tn.Installed("a.v4.0.0", "b.v2.0.0")
	inState(tn, made.Name, operatorsv1alpha1.SubscriptionStateAtLatest, "b.v2.0.0", "b.v2.0.0")
	require.Empty(t, subscriptions(t, tn)[made.Name].Status.GetCondition(names.ConditionUpgradeHeldBack).Reason)
}

// The CustomResourceDefinition stays in the cluster, but no installed operator would reconcile its objects.
func TestKeepsTheOnlyProviderOfAKindThatAnotherOperatorRequires(t *testing.T) {
	t.Parallel()
	tn, group := brings(t)
	all := env.Brings{"a.v1.0.0": env.Gadgets(group)}
	requires := "b.v1.0.0 stable kind=" + group + "/v1/Gadget"
	tn.PublishWith("catalog", all, releasesV1, requires)
	tn.Subscribe("catalog", "b", "stable") // the provider is its dependency
	tn.Installed("a.v1.0.0", "b.v1.0.0")
	provider := "a-stable-catalog-" + tn.Namespace

	tn.PublishWith("catalog", all, releasesV1, releasesV2, requires)
	inState(tn, provider, operatorsv1alpha1.SubscriptionStateUpgradeAvailable, "a.v1.0.0", "a.v1.0.0")
	says(tn, provider, names.ConditionUpgradeHeldBack, resolver.UpgradeClashes, "a.v2.0.0 of channel stable cannot replace a.v1.0.0: "+
		"bundle b.v1.0.0 requires an operator providing an API with group: "+group+", version: v1, kind: Gadget")

	tn.PublishWith("catalog", all, releasesV1, releasesV2, requires, "b.v2.0.0 stable replaces=b.v1.0.0")
	tn.Installed("a.v2.0.0", "b.v2.0.0")
	inState(tn, provider, operatorsv1alpha1.SubscriptionStateAtLatest, "a.v2.0.0", "a.v2.0.0")
}

func TestKeepsTheOldVersionIfTheNewOneExceedsTheAccount(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
	before := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(t, tn.Get("a.v1.0.0", before))

	tn.Publish("catalog", releasesV1, releasesV2+" reads=secrets")
	says(tn, "a", names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, "secrets")
	says(tn, "a", names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, "a.v2.0.0 requests more permissions than a.v1.0.0")
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateUpgradePending, "a.v2.0.0", "a.v1.0.0")
	after := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(t, tn.Get("a.v1.0.0", after))
	require.Equal(t, operatorsv1alpha1.CSVPhaseSucceeded, after.Status.Phase)
	require.Equal(t, before.ResourceVersion, after.ResourceVersion, "the refused upgrade must not change the operator")
	require.True(t, apierrors.IsNotFound(tn.Get("a.v2.0.0", after)))

	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	tn.Installed("a.v2.0.0")
}

func TestReplacesAFailedVersionOnlyIfTheGroupAllowsIt(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]operatorsv1.UpgradeStrategy{
		"default": operatorsv1.UpgradeStrategyDefault, "fail forward": operatorsv1.UpgradeStrategyUnsafeFailForward,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := following(t, func(og *operatorsv1.OperatorGroup) { og.Spec.UpgradeStrategy = strategy })
			tn.Publish("catalog", releasesV1+" global")
			tn.Subscribe("catalog", "a", "stable")
			tn.Eventually(func(c *assert.CollectT) {
				assert.Equal(c, operatorsv1alpha1.CSVPhaseFailed, tn.CSV(c, "a.v1.0.0").Status.Phase)
			})
			tn.Publish("catalog", releasesV1+" global", releasesV2)
			if strategy == operatorsv1.UpgradeStrategyDefault {
				tn.Eventually(func(c *assert.CollectT) {
					assert.Equal(c, operatorsv1alpha1.CSVPhaseFailed, tn.CSV(c, "a.v1.0.0").Status.Phase)
					assert.Equal(c, "a.v1.0.0", subscriptions(t, tn)["a"].Status.CurrentCSV)
				})
				return
			}
			tn.Installed("a.v2.0.0")
		})
	}
}

func TestEachManualUpgradeNeedsApproval(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1, releasesV2)
	tn.Subscribe("catalog", "a", "stable", func(s *operatorsv1alpha1.SubscriptionSpec) {
		s.InstallPlanApproval, s.StartingCSV = operatorsv1alpha1.ApprovalManual, "a.v1.0.0"
	})
	tn.Approve("a.v1.0.0")
	tn.Installed("a.v1.0.0")
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateUpgradePending, "a.v2.0.0", "a.v1.0.0")
	says(tn, "a", operatorsv1alpha1.SubscriptionInstallPlanPending, string(operatorsv1alpha1.InstallPlanPhaseRequiresApproval), "")

	// The plan that waits for approval is outdated and is superseded.
	tn.Publish("catalog", releasesV1, "a.v2.0.1 stable replaces=a.v1.0.0 skips=a.v2.0.0", releasesV2)
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateUpgradePending, "a.v2.0.1", "a.v1.0.0")
	tn.Approve("a.v2.0.1")
	tn.Installed("a.v2.0.1")
}

func TestAnUnhealthyCatalogOnlyAffectsUpgradesThatNeedIt(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("good", "a.v1.0.0 stable", "c.v1.0.0 stable needs=nowhere:>=1.0.0", "d.v1.0.0 stable needs=e:>=1.0.0", "e.v1.0.0 stable", "f.v1.0.0 stable")
	tn.Catalog("dead", image(catalogAbsent))
	tn.Catalog("lying", image(catalogMalformed))
	tn.Subscribe("good", "a", "stable")
	tn.Subscribe("good", "c", "stable")
	tn.Subscribe("good", "d", "stable")
	tn.Subscribe("dead", "g", "stable")
	tn.Subscribe("lying", "h", "stable")
	tn.Installed("a.v1.0.0", "d.v1.0.0", "e.v1.0.0")
	const failed = operatorsv1alpha1.SubscriptionResolutionFailed
	says(tn, "c", failed, resolver.ErrorPreventedResolution, "is not available, but it may include what the bundle requires")
	says(tn, "g", failed, resolver.ErrorPreventedResolution, "error using catalogsource "+tn.Namespace+"/dead")
	says(tn, "h", failed, resolver.ErrorPreventedResolution, "error using catalogsource "+tn.Namespace+"/lying")
	for _, name := range []string{"a", "d"} {
		require.NotEqual(t, corev1.ConditionTrue, subscriptions(t, tn)[name].Status.GetCondition(failed).Status, name)
	}
}

func TestReportsDeprecationsAndFollowsAnotherCatalog(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1+" deprecated=old")
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
	says(tn, "a", operatorsv1alpha1.SubscriptionBundleDeprecated, "", "olm.bundle/a.v1.0.0: old")
	says(tn, "a", operatorsv1alpha1.SubscriptionDeprecated, "", "olm.bundle/a.v1.0.0: old")

	tn.Publish("other", releasesV1, releasesV2)
	sub := subscriptions(t, tn)["a"]
	before := sub.DeepCopy()
	sub.Spec.CatalogSource = "other"
	require.NoError(t, cluster.Client.Patch(t.Context(), sub, client.MergeFrom(before)))
	tn.Installed("a.v2.0.0")
	tn.Eventually(func(c *assert.CollectT) {
		for _, condition := range subscriptions(t, tn)["a"].Status.Conditions {
			assert.False(c, strings.Contains(string(condition.Type), "Deprecated"), condition.Message)
		}
	})
}
