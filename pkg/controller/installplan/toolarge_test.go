package installplan

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

func TestAPlanWaitsForASubscriptionThatIsTooLarge(t *testing.T) {
	t.Parallel()
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "sub"}, Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "demo"}}
	budget.Refuse(sub, 123<<20)
	got := newWorld(t, with(sub)).reconcile()
	require.Contains(t, got.message, "Subscription demo, with the config of the Deployments: the object needs 123.0 MiB of memory")
	require.Empty(t, got.writes)
	require.NotZero(t, got.after, "it is checked again")
}
