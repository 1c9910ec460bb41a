package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

func TestReportsAnOperatorThatExceedsItsAccount(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(t, err)
	var inNamespace client.Object
	regrant := func() {
		for _, s := range tn.Needs(b, bundle.Package, tn.Namespace).Scopes() {
			if s.Namespace != rbac.ClusterScope {
				inNamespace = tn.Grant(s.Namespace, s.Rules...)
			} else if inNamespace == nil {
				tn.Grant(s.Namespace, s.Rules...)
			}
		}
	}
	regrant()
	tn.Group(env.AccountName, tn.Namespace)
	tn.Succeeded(bundle.CSV)
	tn.Eventually(func(c *assert.CollectT) { assert.Empty(c, exceeds(tn, c).Status) })

	require.NoError(t, cluster.Client.Delete(t.Context(), inNamespace))
	tn.Eventually(func(c *assert.CollectT) {
		got := exceeds(tn, c)
		assert.Equal(c, corev1.ConditionTrue, got.Status)
		assert.Equal(c, names.ReasonAccountLacksPermissions, got.Reason)
		assert.Contains(c, got.Message, "ClusterServiceVersion "+bundle.CSV+" exceeds the permissions of ServiceAccount "+tn.Account.String()+": in namespace "+tn.Namespace+" {apiGroups: ")
		csv := tn.CSV(c, bundle.CSV)
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, csv.Status.Phase)
		assert.Contains(c, csv.Status.Message, "; ExceedsAccount: ServiceAccount "+tn.Account.String()+" is missing permissions: ")
	})
	greets(t, tn, tn.Namespace)

	regrant()
	tn.Eventually(func(c *assert.CollectT) {
		assert.Empty(c, exceeds(tn, c).Status)
		assert.Equal(c, "install strategy completed with no errors", tn.CSV(c, bundle.CSV).Status.Message)
	})
}

func exceeds(tn *env.Tenant, c assert.TestingT) operatorsv1alpha1.SubscriptionCondition {
	for _, condition := range tn.Subscription(c).Status.Conditions {
		if condition.Type == names.ConditionExceedsAccount {
			return condition
		}
	}
	return operatorsv1alpha1.SubscriptionCondition{}
}
