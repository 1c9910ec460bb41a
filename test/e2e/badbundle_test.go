package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/test/env"
)

func TestRefusesAnInvalidBundleAsAWhole(t *testing.T) {
	t.Parallel()
	for catalog, text := range map[string]string{
		"no-deployments":          "the install strategy has no deployments",
		"csv-without-version":     "missing APIVersion",
		"rule-without-verbs":      "verbs",
		"rule-without-groups":     "apiGroups",
		"bad-serviceaccount-name": `serviceAccountName "Not_A_Name"`,
		"unsupported-kind":        "bundles cannot contain objects of this kind",
	} {
		t.Run(catalog, func(t *testing.T) {
			t.Parallel()
			tn := subscribed(t, catalog)
			grantSample(tn, tn.Namespace)
			tn.Group(env.AccountName, tn.Namespace)

			tn.SubscriptionSays(resolutionFailed, prevented, text)
			tn.SubscriptionSays(operatorsv1alpha1.SubscriptionBundleUnpackFailed, "BundleUnpackFailed", text)
			tn.NothingWritten()
		})
	}
}

func TestReportsACollisionAndDoesNotChangeTheObject(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	theirs := &corev1.ConfigMap{ObjectMeta: tn.Meta("sample-operator-defaults"), Data: map[string]string{"message": "mine"}}
	tn.Create(theirs)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)

	named := "ConfigMap " + tn.Namespace + "/sample-operator-defaults already exists and was not created by this install"
	tn.PlanSays(componentFailed, named)
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionInstallPlanPending, string(operatorsv1alpha1.InstallPlanPhaseInstalling), named)
	tn.NothingWritten()
	after := &corev1.ConfigMap{}
	require.NoError(t, tn.Get(theirs.Name, after))
	require.Equal(t, theirs.ResourceVersion, after.ResourceVersion)

	require.NoError(t, cluster.Client.Delete(t.Context(), theirs))
	tn.Complete()
}
