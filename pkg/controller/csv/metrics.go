package csv

import (
	"cmp"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// metrics collects metrics for alerts. The remaining days are computed at collection time, because a certificate
// continues to age even if it can no longer be read.
type metrics struct {
	clock    clock.PassiveClock
	daysLeft *prometheus.Desc
	// upgrades counts the ClusterServiceVersions that were replaced.
	upgrades prometheus.Counter
	// expires contains the expiry times of the certificates of each ClusterServiceVersion, keyed by Deployment.
	expires keyed.Map[types.NamespacedName, map[string]time.Time]
}

func newMetrics(c clock.PassiveClock) *metrics {
	return &metrics{
		clock: c,
		daysLeft: prometheus.NewDesc("csv_serving_certificate_days_left",
			"Days until the certificate that a Deployment of a ClusterServiceVersion uses for webhooks or APIs expires.",
			[]string{"namespace", "name", "deployment"}, nil),
		upgrades: prometheus.NewCounter(prometheus.CounterOpts{Name: "csv_upgrade_count", Help: "Number of ClusterServiceVersions that were replaced by a newer version."}),
	}
}

// RegisterMetrics registers the metrics.
func (r *Reconciler) RegisterMetrics(to prometheus.Registerer) error {
	return kit.RegisterMetrics(to, r.metrics, r.metrics.upgrades, inventory(r.Client))
}

// inventory returns the collector for OLM's metrics for all ClusterServiceVersions except copied ones.
func inventory(cached client.Reader) prometheus.Collector {
	count := prometheus.NewDesc("csv_count", "Number of ClusterServiceVersions.", nil, nil)
	succeeded := prometheus.NewDesc("csv_succeeded", "1 if the phase of a ClusterServiceVersion is Succeeded, and 0 otherwise.",
		[]string{"namespace", "name", "version"}, nil)
	abnormal := prometheus.NewDesc("csv_abnormal", "1 for each ClusterServiceVersion whose phase is not Succeeded.",
		[]string{"namespace", "name", "version", "phase", "reason"}, nil)
	return kit.Inventory[*operatorsv1alpha1.ClusterServiceVersion]{
		Cached: cached, List: func() client.ObjectList { return &operatorsv1alpha1.ClusterServiceVersionList{} },
		Descs: []*prometheus.Desc{count, succeeded, abnormal},
		Metrics: func(csvs []*operatorsv1alpha1.ClusterServiceVersion) (out []prometheus.Metric) {
			number := 0
			for _, csv := range csvs {
				if csv.Labels[names.LabelCopiedFrom] != "" {
					continue
				}
				number++
				version := csv.Spec.Version.String()
				if csv.Status.Phase == phaseSucceeded {
					out = append(out, kit.Gauge(succeeded, 1, csv.Namespace, csv.Name, version))
					continue
				}
				out = append(out, kit.Gauge(succeeded, 0, csv.Namespace, csv.Name, version),
					kit.Gauge(abnormal, 1, csv.Namespace, csv.Name, version, string(csv.Status.Phase), string(csv.Status.Reason)))
			}
			return append(out, kit.Gauge(count, number))
		},
	}
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
