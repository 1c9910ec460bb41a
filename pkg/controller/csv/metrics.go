package csv

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metrics are for administrators' alerts. The remaining days are computed when the metrics are collected, because a
// certificate also expires if it can no longer be read.
type metrics struct {
	clock    clock.PassiveClock
	daysLeft *prometheus.Desc

	mu sync.Mutex
	// expires is when the certificates of ClusterServiceVersions expire, by Deployment.
	expires map[types.NamespacedName]map[string]time.Time
}

func newMetrics(c clock.PassiveClock) *metrics {
	return &metrics{
		clock: c,
		daysLeft: prometheus.NewDesc("csv_serving_certificate_days_left",
			"Days until the expiry of the certificate that a Deployment of a ClusterServiceVersion uses for webhooks or APIs.",
			[]string{"namespace", "name", "deployment"}, nil),
		expires: map[types.NamespacedName]map[string]time.Time{},
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
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for csv, deployments := range m.expires {
		for name, expires := range deployments {
			days := expires.Sub(now).Hours() / 24
			to <- prometheus.MustNewConstMetric(m.daysLeft, prometheus.GaugeValue, days, csv.Namespace, csv.Name, name)
		}
	}
}

// set records when the certificates expire. A certificate that could not be read keeps its value; a
// ClusterServiceVersion that is being replaced, or whose certificates a tool issues, has none.
func (m *metrics) set(s *scope) {
	key := client.ObjectKeyFromObject(s.csv)
	if s.facts.ReplacedBy != "" || s.hooks != nil && (s.hooks.Empty() || s.hooks.Outsourced()) {
		m.forget(key)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	expires := map[string]time.Time{}
	for _, c := range s.certificates {
		when, known := m.expires[key][c.Deployment]
		if !c.Expires.IsZero() {
			when, known = c.Expires, true
		}
		if known {
			expires[c.Deployment] = when
		}
	}
	if len(s.certificates) > 0 {
		m.expires[key] = expires
	}
}

// forget drops the values of a deleted ClusterServiceVersion.
func (m *metrics) forget(csv types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.expires, csv)
}
