package installplan

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// plans is a cache with these InstallPlans.
type plans struct {
	client.Client

	all []operatorsv1alpha1.InstallPlan
}

func (p plans) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*operatorsv1alpha1.InstallPlanList).Items = p.all
	return nil
}

// Each reconcile of a plan looks for newer ones. A namespace can have any number of plans with 250 KiB of pins.
func TestNewerPlansOfOtherSubscriptionsAreNotDecoded(t *testing.T) {
	of := func(uid string) (content resolver.Plan, plan operatorsv1alpha1.InstallPlan) {
		content = resolver.Plan{Namespace: "ns"}
		for i := range 1000 {
			content.Pins = append(content.Pins, resolver.Pin{Subscription: fmt.Sprint(i), SubscriptionUID: types.UID(uid), Bundle: strings.Repeat("b", 100)})
		}
		plan.Namespace, plan.Name, plan.UID, plan.Spec.Generation = "ns", content.Name(), types.UID(content.Name()), 2
		plan.Annotations = map[string]string{names.AnnotationPlan: content.Encode()}
		return content, plan
	}
	_, other := of("other")
	cached := plans{}
	for i := range 200 {
		one := other
		one.UID = types.UID(fmt.Sprint(i))
		cached.all = append(cached.all, one)
	}
	own, sharing := of("own")
	own.Pins = own.Pins[:1]
	s := &run{reconciler: &Reconciler{Options: Options{Client: &cached}}, plan: &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "own"}}, content: own}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	newer, err := s.newerPlan(t.Context())
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Empty(t, newer)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))

	cached.all = append(cached.all, sharing)
	newer, err = s.newerPlan(t.Context())
	require.NoError(t, err)
	require.Equal(t, sharing.Name, newer)
}
