package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env"
)

// A version that requires a range of its own package that includes it is installed and upgraded like any other, with one
// Subscription.
func TestInstallsABundleThatRequiresItsOwnPackage(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	const first = "own.v1.0.0 stable needs=own:>=1.0.0"
	tn.Publish("catalog", first)
	tn.GrantReleases()
	tn.Group(env.AccountName, tn.Namespace)
	tn.Subscribe("catalog", "own", "stable")
	tn.Installed("own.v1.0.0")

	tn.Publish("catalog", first, "own.v2.0.0 stable replaces=own.v1.0.0 needs=own:>=1.0.0")
	tn.Installed("own.v2.0.0")
	require.Equal(t, "own.v2.0.0", tn.Subscription(t).Status.CurrentCSV)
}

// A namespace has one version of a package. If a version requires another one, the Subscription says so, nothing is
// created for the requirement, and the first version without it is installed. A second Subscription, to the channel of the
// other version, neither installs nor replaces anything. It holds back upgrades until it is deleted, and its deletion leaves
// the operator alone.
func TestInstallsOneVersionOfAPackage(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	lines := []string{"pair.v2.0.0 main needs=pair:<2.0.0", "pair.v1.0.0 dep"}
	tn.Publish("catalog", lines...)
	tn.GrantReleases()
	tn.Group(env.AccountName, tn.Namespace)
	tn.Subscribe("catalog", "pair", "main")
	says(tn, "pair", operatorsv1alpha1.SubscriptionResolutionFailed, resolver.ConstraintsNotSatisfiable,
		`Bundle "pair.v2.0.0" requires another version of its own package "pair"`)
	tn.Installed()

	lines = append(lines, "pair.v2.1.0 main replaces=pair.v2.0.0")
	tn.Publish("catalog", lines...)
	tn.Installed("pair.v2.1.0")
	installed := tn.CSV(t, "pair.v2.1.0").UID
	second := &operatorsv1alpha1.Subscription{ObjectMeta: tn.Meta("second"), Spec: &operatorsv1alpha1.SubscriptionSpec{
		CatalogSource: "catalog", CatalogSourceNamespace: tn.Namespace, Package: "pair", Channel: "dep",
	}}
	tn.Create(second)
	tn.Publish("catalog", append(lines, "pair.v2.2.0 main replaces=pair.v2.1.0")...)
	says(tn, "pair", names.ConditionUpgradeHeldBack, resolver.UpgradeClashes, "subscription second has pair.v2.1.0")
	tn.Installed("pair.v2.1.0")
	require.Equal(t, installed, tn.CSV(t, "pair.v2.1.0").UID)

	require.NoError(t, cluster.Client.Delete(t.Context(), second))
	tn.Installed("pair.v2.2.0")
}
