package catalogsource

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env/exposition"
)

// sources is a cache that contains CatalogSources.
type sources struct {
	client.Reader
	all []unstructured.Unstructured
}

func (s sources) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*unstructured.UnstructuredList).Items = s.all
	return nil
}

// collectors is a Registerer that collects what is registered.
type collectors struct {
	prometheus.Registerer
	all []prometheus.Collector
}

func (c *collectors) Register(one prometheus.Collector) error {
	c.all = append(c.all, one)
	return nil
}

func TestReportsConnectionsAsMetrics(t *testing.T) {
	source := func(name string, state any) unstructured.Unstructured {
		u := newObject()
		u.SetNamespace("ns")
		u.SetName(name)
		if state != nil {
			u.Object["status"] = map[string]any{"connectionState": state}
		}
		return *u
	}
	r := &Reconciler{Options: Options{Cache: sources{all: []unstructured.Unstructured{
		source("a", map[string]any{"lastObservedState": "READY"}), source("b", map[string]any{"lastObservedState": "CONNECTING"}),
		source("c", nil), source("d", "not an object"),
	}}}, snapshots: newSnapshots()}
	r.snapshots.Inc()
	all := &collectors{}
	require.NoError(t, r.RegisterMetrics(all))
	require.Equal(t, []string{
		"catalog_source_count 4", "catalog_source_snapshots_total 1",
		`catalogsource_ready{name="a",namespace="ns"} 1`, `catalogsource_ready{name="b",namespace="ns"} 0`,
		`catalogsource_ready{name="c",namespace="ns"} 0`, `catalogsource_ready{name="d",namespace="ns"} 0`,
	}, exposition.Lines(t, all.all...))
}
