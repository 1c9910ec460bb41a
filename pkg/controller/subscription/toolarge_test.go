package subscription

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/resolver"
)

// The cache contains only a part of such a Subscription: what it says about itself must not be installed.
func TestASubscriptionThatIsTooLargeSaysSo(t *testing.T) {
	c := &creating{}
	r := &Reconciler{Options: Options{Client: c}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	large, usual := subscription("large", ""), subscription("usual", "")
	usual.Name, usual.Spec.Package, usual.Spec.StartingCSV = "other", "dep", ""
	budget.Refuse(large, 123<<20)
	w := offering(large, usual)
	snapshot, _ := w.input.Catalogs.Get(catalogKey)
	snapshot.Reader = pulling{}
	views, err := r.advance(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: "spec.config is too large: the object needs 123.0 MiB of memory, " +
		"which is more than Remit keeps for an object of this kind; remove entries from its lists, labels or annotations"}, views["large"].problem)
	require.Empty(t, views["large"].resolved)
	require.Nil(t, views["usual"].problem)
	require.NotEmpty(t, views["usual"].head, "others are resolved")
	require.Empty(t, views["large"].unpacking)
	require.NotEmpty(t, views["usual"].unpacking)
}
