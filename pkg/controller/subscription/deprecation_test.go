package subscription

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

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
	for _, key := range []types.NamespacedName{{Namespace: "other", Name: "cat"}, {Namespace: "global", Name: "cat"}} { // of another tenant, and excluded
		w.input.Catalogs.(*catalog.Store).Put(&catalog.Snapshot{Key: key, Digest: "b", Packages: snapshot.Packages})
		w.input.ExcludeGlobal = true
		sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
		sub.Spec.CatalogSourceNamespace = key.Namespace
		require.Zero(t, w.deprecationsOf(sub), "the texts of a catalog that the namespace cannot use")
	}
	snapshot.Packages["op"] = &catalog.Package{Name: "op"}
	require.Empty(t, w.deprecationsOf(subscription("a", operatorsv1alpha1.ApprovalAutomatic)).conditions()["Deprecated"])
}
