package csv

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// metrics collects metrics for alerts. The remaining days are computed at collection time, because a certificate
// continues to age even if it can no longer be read.
type metrics struct {
	clock    clock.PassiveClock
	daysLeft *prometheus.Desc
	// expires contains the expiry times of the certificates of each ClusterServiceVersion, keyed by Deployment.
	expires keyed.Map[types.NamespacedName, map[string]time.Time]
}

func newMetrics(c clock.PassiveClock) *metrics {
	return &metrics{
		clock: c,
		daysLeft: prometheus.NewDesc("csv_serving_certificate_days_left",
			"Days until the certificate that a Deployment of a ClusterServiceVersion uses for webhooks or APIs expires.",
			[]string{"namespace", "name", "deployment"}, nil),
	}
}

// RegisterMetrics registers the metrics.
func (r *Reconciler) RegisterMetrics(to prometheus.Registerer) error {
	return to.Register(r.metrics)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) { to <- m.daysLeft }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	now := m.clock.Now()
	var all []prometheus.Metric
	m.expires.Each(func(csv types.NamespacedName, deployments map[string]time.Time) {
		for name, expires := range deployments {
			days := expires.Sub(now).Hours() / 24
			all = append(all, prometheus.MustNewConstMetric(m.daysLeft, prometheus.GaugeValue, days, csv.Namespace, csv.Name, name))
		}
	})
	for _, metric := range all { // sent after Each has returned, because the function passed to Each must not block
		to <- metric
	}
}

// set records when the certificates of a ClusterServiceVersion expire. A certificate that cannot be read keeps its
// recorded time. Nothing is recorded for a ClusterServiceVersion that is being replaced, has no webhooks or APIs, or
// has its certificates issued by a certificate tool.
func (m *metrics) set(s *scope) {
	key := client.ObjectKeyFromObject(s.csv)
	if s.facts.ReplacedBy != "" || s.hooks != nil && (s.hooks.Empty() || s.hooks.Outsourced()) {
		m.expires.Delete(key)
		return
	}
	before, expires := m.expires.Get(key), map[string]time.Time{}
	for _, c := range s.certificates {
		if when := cmp.Or(c.Expires, before[c.Deployment]); !when.IsZero() {
			expires[c.Deployment] = when
		}
	}
	if len(s.certificates) > 0 {
		m.expires.Set(key, expires)
	}
}
