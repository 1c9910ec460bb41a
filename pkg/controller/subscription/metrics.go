package subscription

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/resolver"
)

// metrics collects OLM's metrics for resolutions and for the reconciles of Subscriptions. A nil metrics records
// nothing.
type metrics struct {
	clock       clock.PassiveClock
	resolutions *prometheus.SummaryVec
	total       *prometheus.Desc
	// syncs contains the Subscriptions of each namespace that has any. A reconcile replaces the slice, which is smaller
	// than a map.
	syncs keyed.Map[string, []syncs]
}

// syncs counts the reconciles of a Subscription since the values of the metric's labels last changed.
type syncs struct {
	subscription string
	labels       [5]string
	count        int
}

func newMetrics(c clock.PassiveClock) *metrics {
	return &metrics{
		clock: c,
		resolutions: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "olm_resolution_duration_seconds", Help: "Duration of the resolution of a namespace, by outcome: succeeded or failed.",
			Objectives: map[float64]float64{0.9: 0.01, 0.95: 0.005, 0.99: 0.001},
		}, []string{"outcome"}),
		total: prometheus.NewDesc("subscription_sync_total", "Number of times that a Subscription was reconciled.",
			[]string{"name", "installed", "channel", "package", "approval"}, nil),
	}
}

// RegisterMetrics registers OLM's metrics for Subscriptions.
func (r *Reconciler) RegisterMetrics(to prometheus.Registerer) error {
	count := prometheus.NewDesc("subscription_count", "Number of Subscriptions.", nil, nil)
	return kit.RegisterMetrics(to, r.metrics.resolutions, r.metrics, kit.Inventory[*operatorsv1alpha1.Subscription]{
		Cached: r.Client, List: func() client.ObjectList { return &operatorsv1alpha1.SubscriptionList{} }, Descs: []*prometheus.Desc{count},
		Metrics: func(subs []*operatorsv1alpha1.Subscription) []prometheus.Metric {
			return []prometheus.Metric{kit.Gauge(count, len(subs))}
		},
	})
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) { to <- m.total }

// Collect implements prometheus.Collector. Subscriptions of different namespaces can have the same labels.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	sums := map[[5]string]int{}
	m.syncs.Each(func(_ string, subs []syncs) {
		for _, sub := range subs {
			sums[sub.labels] += sub.count
		}
	})
	for labels, sum := range sums {
		to <- prometheus.MustNewConstMetric(m.total, prometheus.CounterValue, float64(sum), labels[:]...)
	}
}

// reconciled counts a reconcile of a namespace's Subscriptions, and forgets those that no longer exist.
func (m *metrics) reconciled(namespace string, subs []operatorsv1alpha1.Subscription) {
	if m == nil {
		return
	}
	if len(subs) == 0 {
		m.syncs.Delete(namespace)
		return
	}
	before := map[string]syncs{}
	for _, old := range m.syncs.Get(namespace) {
		before[old.subscription] = old
	}
	after := make([]syncs, 0, len(subs))
	for i := range subs {
		sub := &subs[i]
		if sub.Spec == nil {
			continue
		}
		now := syncs{
			subscription: sub.Name, count: 1,
			labels: [5]string{sub.Name, sub.Status.InstalledCSV, sub.Spec.Channel, sub.Spec.Package, string(sub.Spec.InstallPlanApproval)},
		}
		for i := range now.labels {
			now.labels[i] = kit.Label(now.labels[i])
		}
		if old := before[sub.Name]; old.labels == now.labels {
			now.count += old.count
		}
		after = append(after, now)
	}
	m.syncs.Set(namespace, after)
}

// resolving starts the measurement of a resolution, and returns a function that records how long it took, and whether it
// succeeded for all Subscriptions.
func (m *metrics) resolving() (resolved func(resolver.Answer, error)) {
	if m == nil {
		return func(resolver.Answer, error) {}
	}
	began := m.clock.Now()
	return func(answer resolver.Answer, err error) {
		outcome := "succeeded"
		if err != nil || len(answer.Problems) > 0 {
			outcome = "failed"
		}
		m.resolutions.WithLabelValues(outcome).Observe(m.clock.Since(began).Seconds())
	}
}
