package csv

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an administrator may want to be warned by.
type metrics struct {
	daysLeft *prometheus.GaugeVec
}

func newMetrics() *metrics {
	return &metrics{daysLeft: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "csv_serving_certificate_days_left",
		Help: "Days until the certificate expires by which a Deployment of a ClusterServiceVersion serves webhooks or APIs.",
	}, []string{"namespace", "name", "deployment"})}
}

// RegisterMetrics makes the metrics known.
func (r *Reconciler) RegisterMetrics(to prometheus.Registerer) error {
	return to.Register(r.metrics.daysLeft)
}

// set says how long the certificates last, as of this look: there is one at least every secretLook.
func (m *metrics) set(s *scope) {
	for _, c := range s.certificates {
		if !c.Expires.IsZero() {
			m.daysLeft.WithLabelValues(s.csv.Namespace, s.csv.Name, c.Deployment).Set(c.Expires.Sub(s.facts.Now).Hours() / 24)
		}
	}
}

// forget drops those of a ClusterServiceVersion that is gone.
func (m *metrics) forget(namespace, name string) {
	m.daysLeft.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name})
}
