package subscription

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestDeprecationConditions(t *testing.T) {
	w := offering()
	snapshot, ok := w.input.Catalogs.Get(catalogKey)
	require.True(t, ok)
	snapshot.Packages["op"].Deprecation, snapshot.Packages["op"].Channels["stable"].Deprecation = "old package", "old channel"
	got := w.deprecationsOf(subscription("a", operatorsv1alpha1.ApprovalAutomatic)).conditions()
	require.Equal(t, map[operatorsv1alpha1.SubscriptionConditionType]string{
		"Deprecated": "olm.package/op: old package; olm.channel/stable: old channel", "PackageDeprecated": "olm.package/op: old package",
		"ChannelDeprecated": "olm.channel/stable: old channel", "BundleDeprecated": "",
	}, got)
	snapshot.Packages["op"] = &catalog.Package{Name: "op"}
	require.Empty(t, w.deprecationsOf(subscription("a", operatorsv1alpha1.ApprovalAutomatic)).conditions()["Deprecated"])
}
