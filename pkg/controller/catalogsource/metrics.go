package catalogsource

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

// newSnapshots returns OLM's counter of published catalog snapshots.
func newSnapshots() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "catalog_source_snapshots_total", Help: "Number of times that the content of a catalog was published because it was new or had changed."})
}

// RegisterMetrics registers OLM's metrics for CatalogSources.
func (r *Reconciler) RegisterMetrics(to prometheus.Registerer) error {
	count := prometheus.NewDesc("catalog_source_count", "Number of CatalogSources.", nil, nil)
	ready := prometheus.NewDesc("catalogsource_ready", "1 if the connection state of a CatalogSource is READY, and 0 otherwise.", []string{"namespace", "name"}, nil)
	return kit.RegisterMetrics(to, r.snapshots, kit.Inventory[*unstructured.Unstructured]{
		Cached: r.Cache, List: func() client.ObjectList { return newObjects() }, Descs: []*prometheus.Desc{count, ready},
		Metrics: func(sources []*unstructured.Unstructured) []prometheus.Metric {
			out := []prometheus.Metric{kit.Gauge(count, len(sources))}
			for _, source := range sources {
				value := 0
				if state, _, _ := unstructured.NestedString(source.Object, "status", "connectionState", "lastObservedState"); state == connectivity.Ready.String() {
					value = 1
				}
				out = append(out, kit.Gauge(ready, value, source.GetNamespace(), source.GetName()))
			}
			return out
		},
	})
}
