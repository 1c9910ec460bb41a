package kit

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// collectTimeout limits how long a collection waits for a cache that is not synced yet.
const collectTimeout = 5 * time.Second

// Inventory is a prometheus.Collector for metrics about cached objects. It computes them at collection time, so the
// metrics of an object are deleted together with the object.
type Inventory[T client.Object] struct {
	// Cached reads from a cache. It is not called before the first collection.
	Cached client.Reader
	// List returns an empty list of the objects' kind.
	List func() client.ObjectList
	// Descs describes all metrics. If the objects cannot be listed, the first one has the error.
	Descs []*prometheus.Desc
	// Metrics returns the metrics of the objects, which it must not modify.
	Metrics func([]T) []prometheus.Metric
}

// Describe implements prometheus.Collector.
func (i Inventory[T]) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range i.Descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (i Inventory[T]) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	list := i.List()
	if err := i.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		to <- prometheus.NewInvalidMetric(i.Descs[0], fmt.Errorf("list %T: %w", list, err))
		return
	}
	var items []T
	_ = meta.EachListItem(list, func(item runtime.Object) error { // only this function can return errors, and it returns none
		if obj, ok := item.(T); ok {
			items = append(items, obj)
		}
		return nil
	})
	for _, metric := range i.Metrics(items) {
		to <- metric
	}
}

// Gauge returns a metric with a number and the values of the description's labels.
func Gauge(desc *prometheus.Desc, value int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
}

// RegisterMetrics registers collectors until one cannot be registered.
func RegisterMetrics(to prometheus.Registerer, all ...prometheus.Collector) error {
	for _, one := range all {
		if err := to.Register(one); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
