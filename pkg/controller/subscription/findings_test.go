package subscription

import (
	"fmt"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
)

// counted believes what it is shown, and counts.
type counted struct {
	ownerutil.Proofs
	checks int
}

func (c *counted) CheckSince(client.Object, string, time.Time) error {
	c.checks++
	return nil
}

// crowd is a namespace with Subscriptions, versions and plans none of which were made for another.
func crowd(subs, csvs, plans int, proofs ownerutil.Proofs) *world {
	w := &world{namespace: "ns", proofs: proofs}
	for i := range subs {
		sub := subscription(fmt.Sprint("u", i), "")
		sub.Name, sub.Spec.Package = fmt.Sprint("s", i), fmt.Sprint("p", i%(1+csvs/2))
		sub.Annotations = map[string]string{names.AnnotationGeneratedBy: "x"}
		w.subscriptions = append(w.subscriptions, *sub)
	}
	for i := range csvs {
		owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: fmt.Sprint("p", i), Namespace: "ns"}}
		w.csvs = append(w.csvs, operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("c", i), Labels: owner.Labels()}})
	}
	for i := range plans {
		plan := resolver.Plan{Namespace: "ns"}
		for k := range 20 {
			plan.Pins = append(plan.Pins, resolver.Pin{SubscriptionUID: types.UID(fmt.Sprint(i, "-", k)), Bundle: "b"})
		}
		name, _ := plan.Name()
		text, _ := plan.Encode()
		w.plans = append(w.plans, operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Annotations: map[string]string{names.AnnotationPlan: text}}})
	}
	return w
}

func TestPlansAreDecodedOnceForAllSubscriptions(t *testing.T) {
	allocated := func(subs int) float64 {
		w := crowd(subs, 0, 100, nil)
		return testing.AllocsPerRun(2, func() {
			w.found = nil
			w.toResolve(w.views())
		})
	}
	require.Less(t, allocated(100), 3*allocated(1), "100 times as many Subscriptions, the same plans")
}

func TestMarksAreCheckedOnceForAllSubscriptions(t *testing.T) {
	checks := &counted{}
	w := crowd(200, 100, 0, checks)
	views := w.views()
	require.NotNil(t, views["u0"].installed)
	require.Len(t, w.toResolve(views).Others, 49, "the others have no Subscription")
	require.Equal(t, 51, checks.checks, "those that carry the mark of a package that is asked for")
}
