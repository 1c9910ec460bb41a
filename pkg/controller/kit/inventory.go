package kit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/status"
)

// collectTimeout limits how long a collection waits for a cache that is not synced yet.
const collectTimeout = 5 * time.Second

// Inventory is a prometheus.Collector for metrics of cached objects. It computes them at collection time, so the
// metrics of an object are deleted together with the object.
type Inventory[T client.Object] struct {
	// Cached reads from a cache. It is not called before the first collection.
	Cached client.Reader
	// List returns an empty list of the objects' kind.
	List func() client.ObjectList
	// Descs describes all metrics. If the objects cannot be listed, the error is reported for the first one.
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
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the callback never returns an error
		if obj, ok := item.(T); ok {
			items = append(items, obj)
		}
		return nil
	})
	for _, metric := range i.Metrics(items) {
		to <- metric
	}
}

// Gauge returns a gauge with the given value. labels contains the values of the labels that desc declares.
func Gauge(desc *prometheus.Desc, value int, labels ...string) prometheus.Metric {
	bounded := make([]string, len(labels))
	for i := range labels {
		bounded[i] = Label(labels[i])
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), bounded...)
}

// MaxLabel is the maximum number of bytes of a metric label's value. The names of objects are never longer.
const MaxLabel = 253

// Label truncates a text and replaces bytes that are not valid UTF-8, so that it can be the value of a metric's label: users
// choose the texts of specs and statuses, and monitoring systems store the values of all metrics.
func Label(text string) string { return status.Cut(strings.ToValidUTF8(text, "\uFFFD"), MaxLabel) }

// RegisterMetrics registers the collectors. It stops at the first one that cannot be registered.
func RegisterMetrics(to prometheus.Registerer, all ...prometheus.Collector) error {
	for _, one := range all {
		if err := to.Register(one); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
