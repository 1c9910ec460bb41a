package installplan

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// silent is the reader of a registry that does not respond.
type silent struct{}

func (silent) Content(ctx context.Context, _, _, _ string) (*catalog.Content, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A plan whose registry does not respond gives back its worker, and is retried.
func TestAPlanReadsBundlesForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &catalog.Store{}
		store.Put(&catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "cat"}, Reader: silent{}})
		plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plan"}}
		s := &run{
			reconciler: &Reconciler{Options: Options{Catalogs: store}}, saved: plan, plan: plan.DeepCopy(), group: &operatorsv1.OperatorGroup{},
			content: resolver.Plan{Namespace: "ns", Pins: []resolver.Pin{{CatalogNamespace: "ns", Catalog: "cat", Package: "op", Bundle: "op.v1"}}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		_, err := makeSteps(ctx, s)
		require.Equal(t, resolver.ReadTime, time.Since(began))
		var waits *refused
		require.ErrorAs(t, err, &waits)
		require.EqualValues(t, names.ReasonBundleContentUnavailable, waits.reason)
		require.ErrorContains(t, err, "takes longer than 30s in total; this will be retried")
	})
}

// crowding is the reader of a bundle whose objects take much memory. While it is read again, two other plans wait.
type crowding struct {
	content *catalog.Content
	reads   int
	crowd   func()
}

func (c *crowding) Content(context.Context, string, string, string) (*catalog.Content, error) {
	if c.reads++; c.reads == 2 {
		c.crowd()
	}
	return c.content, nil
}

// The bundles of a plan that takes much memory are parsed in its turn, which can end before each of them.
func TestALargePlanMakesRoomBeforeItParsesABundle(t *testing.T) {
	content := &catalog.Content{}
	for i := range 2 {
		content.Manifests = append(content.Manifests, fmt.Appendf(nil, `{"apiVersion":"monitoring.coreos.com/v1","kind":"PrometheusRule","metadata":{"name":"r%d"},"spec":{"groups":[%s]}}`,
			i, strings.TrimSuffix(strings.Repeat("{},", 50_000), ",")))
	}
	clock := testclock.NewFakePassiveClock(time.Now())
	r := &Reconciler{large: &largeQueue{clock: clock}}
	reader := &crowding{content: content, crowd: func() {
		clock.SetTime(clock.Now().Add(largeTurn))
		for _, namespace := range []string{"a", "b"} {
			r.large.begin(types.NamespacedName{Namespace: namespace, Name: "plan"})
		}
	}}
	store := &catalog.Store{}
	store.Put(&catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "cat"}, Reader: reader})
	r.Catalogs = store
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plan"}}
	s := &run{
		reconciler: r, saved: plan, plan: plan.DeepCopy(), group: &operatorsv1.OperatorGroup{},
		content: resolver.Plan{Namespace: "ns", Pins: []resolver.Pin{{CatalogNamespace: "ns", Catalog: "cat", Package: "op", Bundle: "op.v1", Digest: content.Digest()}}},
	}
	_, err := makeSteps(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, 2, reader.reads)
	require.True(t, s.queued)
}
