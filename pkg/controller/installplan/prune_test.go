package installplan

import (
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

func TestSurplusPlansAreTheOldestFinishedPlans(t *testing.T) {
	plans := func(n int, unfinished ...int) (all []operatorsv1alpha1.InstallPlan) {
		for g := 1; g <= n; g++ {
			ip := operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(g), UID: types.UID(fmt.Sprint(g))}}
			ip.Spec.Generation = g
			ip.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete
			content := resolver.Plan{Pins: []resolver.Pin{{SubscriptionUID: "a", Bundle: ip.Name}}}
			if g == 4 {
				content.Pins[0].SubscriptionUID = "b"
			}
			name := content.Name()
			text := content.Encode()
			ip.Name, ip.Annotations = name, map[string]string{names.AnnotationPlan: text}
			for _, u := range unfinished {
				if u == g {
					ip.Status.Phase = operatorsv1alpha1.InstallPlanPhaseRequiresApproval
				}
			}
			all = append(all, ip)
		}
		return all
	}
	for _, row := range []struct {
		name    string
		all     []operatorsv1alpha1.InstallPlan
		current types.UID
		want    []string
	}{
		{"no more than the limit", plans(5), "5", nil},
		{"one more than the limit", plans(6), "6", []string{"1"}},
		{"a limited number per run", plans(20), "20", []string{"1", "2", "3", "5", "6"}},
		{"keeps waiting plans", plans(8, 2), "8", []string{"1", "3"}},
		{"keeps the newest of a Subscription", plans(9), "9", []string{"1", "2", "3"}},
		{"keeps the completing plan", plans(8), "1", []string{"2", "3"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, ip := range surplus(row.all, row.current) {
				got = append(got, string(ip.UID))
			}
			require.Equal(t, row.want, got)
		})
	}
}
