package author

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const noGroupForSubscription = "'remit-create-the-operatorgroup-before-the-subscription'"

// subscription returns a Subscription that has not been created yet.
func (s *site) subscription(name string) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{ObjectMeta: s.meta(name), Spec: &operatorsv1alpha1.SubscriptionSpec{
		CatalogSource: "catalog", CatalogSourceNamespace: s.namespace, Package: "op", Channel: "stable",
	}}
}

// writesSubscriptions allows all users of the site to write Subscriptions.
func (s *site) writesSubscriptions(group bool) {
	s.Helper()
	s.writes("subscriptions", func() client.Object { return s.subscription("probe") }, noGroupForSubscription, group)
}

// writes allows all users of the site to write the objects of a kind, and returns once the API server has observed these permissions
// and, if group is set, the namespace's OperatorGroup. Otherwise it refuses objects with a message that contains noGroup.
func (s *site) writes(resource string, probe func() client.Object, noGroup string, group bool) {
	s.Helper()
	rule := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{resource, resource + "/status"}, Verbs: []string{"*"}}
	for _, user := range []string{alice, carol, scoped.Username(s.namespace, installer)} {
		s.grant(user, rule)
	}
	s.eventually(func(c *assert.CollectT) {
		err := s.carol.Create(s.Context(), probe(), client.DryRunAll)
		assert.ErrorContains(c, err, csvPolicy)
		if group {
			assert.NoError(c, s.alice.Create(s.Context(), probe(), client.DryRunAll))
		} else {
			assert.ErrorContains(c, s.alice.Create(s.Context(), probe(), client.DryRunAll), noGroup)
			assert.ErrorContains(c, err, noGroup)
		}
	})
}

// A Subscription decides what the account installs, and with which volumes and environment it runs.
func TestUsersWhoMayActAsTheAccountCanWriteSubscriptions(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.writesSubscriptions(true)
		require.NoError(s, s.alice.Create(s.Context(), s.subscription("by-alice")))
		require.NoError(s, s.admin.Create(s.Context(), s.subscription("by-the-administrator")))
		require.NoError(s, s.cluster.As(s.T, scoped.Username(s.namespace, installer)).Create(s.Context(), s.subscription("by-the-account")))
		s.deniedCSV(s.carol.Create(s.Context(), s.subscription("by-carol")), "which OperatorGroup <ns>/group uses to install this Subscription. "+
			"An administrator of the namespace can run: kubectl create role")
		for _, edit := range []string{
			`{"spec":{"config":{"volumes":[{"name":"root","hostPath":{"path":"/"}}]}}}`,
			`{"spec":{"config":{"env":[{"name":"LD_PRELOAD","value":"/evil.so"}]}}}`,
			`{"spec":{"channel":"beta"}}`, `{"spec":{"name":"other"}}`, `{"spec":{"source":"other"}}`, `{"spec":{"sourceNamespace":"other"}}`,
			`{"spec":{"startingCSV":"op.v2"}}`, `{"spec":{"installPlanApproval":"Manual"}}`,
		} {
			patch := client.RawPatch(types.MergePatchType, []byte(edit))
			s.deniedCSV(s.carol.Patch(s.Context(), s.subscription("by-alice"), patch), "<ns>/installer")
			require.NoError(s, s.alice.Patch(s.Context(), s.subscription("by-alice"), patch), edit)
		}
		for _, edit := range []string{`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/keep"]}}`, `{"metadata":{"finalizers":null}}`} {
			require.NoError(s, s.carol.Patch(s.Context(), s.subscription("by-alice"), client.RawPatch(types.MergePatchType, []byte(edit))), edit)
		}
		status := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"channel":"gamma"},"status":{"lastUpdated":"2026-01-01T00:00:00Z","reason":"x"}}`))
		sub := s.subscription("by-alice")
		require.NoError(s, s.carol.Status().Patch(s.Context(), sub, status))
		require.Equal(s, "beta", sub.Spec.Channel)
		require.NoError(s, s.carol.Delete(s.Context(), sub))
	})
}

// remit-catalog creates Subscriptions for dependencies. It may not change them.
func TestRemitCreatesSubscriptionsForDependencies(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.writesSubscriptions(true)
		catalog := scoped.Username("remit", "remit-catalog")
		require.NoError(s, s.cluster.As(s.T, catalog).Create(s.Context(), s.subscription("dependency")))
		s.grant(catalog, rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"subscriptions"}, Verbs: []string{"patch"}})
		s.eventually(func(c *assert.CollectT) {
			err := s.cluster.As(s.T, catalog).Patch(s.Context(), s.subscription("dependency"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"channel":"beta"}}`)))
			assert.ErrorContains(c, err, csvPolicy)
		})
	})
}

// Whoever creates the OperatorGroup later does not look for a Subscription that is already there.
func TestRefusesASubscriptionWithoutAnOperatorGroup(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.writesSubscriptions(false)
		for _, c := range []client.Client{s.alice, s.carol} {
			err := c.Create(s.Context(), s.subscription("early"))
			require.ErrorContains(s, err, noGroupForSubscription)
			require.ErrorContains(s, err, "no params found")
		}
		sub := s.subscription("by-the-administrator")
		require.NoError(s, s.admin.Create(s.Context(), sub), "the administrator may use every account (docs/adr/0077)")
		require.Contains(s, sub.Labels, anyAccount)
		s.deniedCSV(s.carol.Patch(s.Context(), sub, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"channel":"beta"}}`))), "as the label remit.dev/any-account")
	})
}

// A file with an OperatorGroup and a Subscription can be applied at once, and a user who may use only another account gains nothing
// from the moment in which the API server does not know the OperatorGroup.
func TestAGroupAndASubscriptionAreCreatedAtOnce(t *testing.T) {
	everyProfile(t, func(s *site) {
		dave, eve := window(s)
		for range windows {
			n := s.next()
			require.NoError(s, dave.Create(s.Context(), n.group("group", boss)))
			require.Error(s, eve.Create(s.Context(), n.subscription("plain")))
			require.NoError(s, dave.Create(s.Context(), n.subscription("sub")))
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"channel":"beta"}}`))
			require.ErrorContains(s, eve.Patch(s.Context(), n.subscription("sub"), patch), csvPolicy)
		}
	})
}

func TestASubscriptionUnderAGroupWithoutAnAccount(t *testing.T) {
	for profile, says := range map[string]string{
		manifests.ProfileBounded: "names no ServiceAccount, and user",
		manifests.ProfileCompat:  "may not impersonate ServiceAccount remit/remit-default, which OperatorGroup",
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, profile)
			s.writesSubscriptions(false)
			s.made("")
			s.eventually(func(c *assert.CollectT) {
				assert.ErrorContains(c, s.alice.Create(s.Context(), s.subscription("x"), client.DryRunAll), says)
			})
			require.NoError(s, s.admin.Create(s.Context(), s.subscription("x")))
		})
	}
}
