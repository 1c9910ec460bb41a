package subscription

import (
	"errors"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/exposition"
)

func TestCountsReconcilesOfSubscriptions(t *testing.T) {
	m := newMetrics(nil)
	subs := []operatorsv1alpha1.Subscription{*subscription("a", operatorsv1alpha1.ApprovalManual)}
	subs[0].Spec.Channel = "stable"
	require.Empty(t, exposition.Lines(t, m))
	m.reconciled("ns", subs)
	m.reconciled("ns", subs)
	require.Equal(t, []string{`subscription_sync_total{approval="Manual",channel="stable",installed="",name="sub",package="op"} 2`}, exposition.Lines(t, m))
	m.reconciled("other", subs) // in another namespace, with the same labels
	require.Equal(t, []string{`subscription_sync_total{approval="Manual",channel="stable",installed="",name="sub",package="op"} 3`}, exposition.Lines(t, m))
	subs[0].Status.InstalledCSV = "op.v1"
	m.reconciled("ns", subs)
	require.Equal(t, []string{
		`subscription_sync_total{approval="Manual",channel="stable",installed="",name="sub",package="op"} 1`,
		`subscription_sync_total{approval="Manual",channel="stable",installed="op.v1",name="sub",package="op"} 1`,
	}, exposition.Lines(t, m))
	m.reconciled("ns", nil)
	m.reconciled("other", []operatorsv1alpha1.Subscription{{}}) // without a spec
	require.Empty(t, exposition.Lines(t, m), "the metrics of a Subscription are deleted together with it")
}

func TestLongLabelsOfSubscriptionsAreTruncatedAndMerged(t *testing.T) {
	m := newMetrics(nil)
	for namespace, channel := range map[string]string{"a": strings.Repeat("x", 1<<20), "b": strings.Repeat("x", 1<<20) + "y"} {
		sub := *subscription("a", operatorsv1alpha1.ApprovalManual)
		sub.Spec.Channel = channel
		m.reconciled(namespace, []operatorsv1alpha1.Subscription{sub})
	}
	lines := exposition.Lines(t, m)
	require.Len(t, lines, 1, "metrics with the same labels end the collection")
	require.Less(t, len(lines[0]), 1<<10)
	require.True(t, strings.HasSuffix(lines[0], " 2"), lines[0])
}

func TestMeasuresResolutions(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	m := newMetrics(clock)
	record := func(took time.Duration, answer resolver.Answer, err error) {
		resolved := m.resolving()
		clock.Step(took)
		resolved(answer, err)
	}
	record(time.Second, resolver.Answer{}, nil)
	record(2*time.Second, resolver.Answer{Problems: map[types.UID]*resolver.Problem{"a": {}}}, nil)
	record(3*time.Second, resolver.Answer{}, errors.New("stopped"))
	lines := exposition.Lines(t, m.resolutions)
	require.Subset(t, lines, []string{
		`olm_resolution_duration_seconds_count{outcome="failed"} 2`, `olm_resolution_duration_seconds_count{outcome="succeeded"} 1`,
		`olm_resolution_duration_seconds_sum{outcome="failed"} 5`, `olm_resolution_duration_seconds_sum{outcome="succeeded"} 1`,
		`olm_resolution_duration_seconds{outcome="succeeded",quantile="0.99"} 1`,
	})
}
