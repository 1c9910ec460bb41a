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

// counted accepts all proofs and counts how often they are checked.
type counted struct {
	ownerutil.Proofs
	checks int
}

func (c *counted) CheckSince(client.Object, string, time.Time) error {
	c.checks++
	return nil
}

// crowd returns a namespace that contains Subscriptions, versions and plans that are not related to one another.
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
		name := plan.Name()
		text := plan.Encode()
		w.plans = append(w.plans, operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Annotations: map[string]string{names.AnnotationPlan: text}}})
	}
	return w
}

func TestDecodesPlansOnceForAllSubscriptions(t *testing.T) {
	allocated := func(subs int) float64 {
		w := crowd(subs, 0, 100, nil)
		return testing.AllocsPerRun(2, func() {
			w.found = nil
			w.toResolve(w.views())
		})
	}
	require.Less(t, allocated(100), 3*allocated(1), "there are 100 times as many Subscriptions, but the same plans")
}

func TestChecksMarksOnceForAllSubscriptions(t *testing.T) {
	checks := &counted{}
	w := crowd(200, 100, 0, checks)
	views := w.views()
	require.NotNil(t, views["u0"].installed)
	require.Len(t, w.toResolve(views).Others, 49, "the other versions have no Subscription")
	require.Equal(t, 51, checks.checks, "only versions with the mark of a requested package are checked")
}
