package scopedcache

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts contains the metrics that are updated immediately. All other metrics are computed when they are collected.
type counts struct {
	starts, denied, recovered, handovers prometheus.Counter
	// running is the number of feeds. The default of Options.RecheckPeriod depends on it.
	running atomic.Int64
}

func newCounts() *counts {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "scopedcache", Name: name, Help: help})
	}
	return &counts{
		starts:    counter("feed_starts_total", "Number of watches that were started."),
		denied:    counter("denied_total", "Number of times that the API server started to refuse a watch."),
		recovered: counter("recovered_total", "Number of times that a refused watch was allowed again."),
		handovers: counter("handovers_total", "Number of watches that were replaced by a wider one."),
	}
}

var (
	descFeeds   = prometheus.NewDesc("scopedcache_feeds", "Number of watches.", []string{"group", "resource", "level", "state"}, nil)
	descClaims  = prometheus.NewDesc("scopedcache_claims", "Number of claimed scopes.", []string{"level"}, nil)
	descOwners  = prometheus.NewDesc("scopedcache_owners", "Number of owners with claims.", nil, nil)
	descObjects = prometheus.NewDesc("scopedcache_objects", "Number of stored objects.", []string{"group", "resource"}, nil)
	descPending = prometheus.NewDesc("scopedcache_pending_events", "Number of events that are pending for a handler.", []string{"group", "resource"}, nil)
)

// collector collects the metrics of a cache. No metric has a label with an owner, a namespace or a name.
type collector Cache

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, counter := range []prometheus.Counter{c.counts.starts, c.counts.denied, c.counts.recovered, c.counts.handovers} {
		out <- counter
	}
	claims := map[string]int{}
	for _, k := range (*Cache)(c).allKinds() {
		k.collect(out, claims)
	}
	for _, level := range []string{"cluster", "namespace", "object"} {
		out <- prometheus.MustNewConstMetric(descClaims, prometheus.GaugeValue, float64(claims[level]), level)
	}
	c.mu.Lock()
	owners := len(c.owners)
	c.mu.Unlock()
	out <- prometheus.MustNewConstMetric(descOwners, prometheus.GaugeValue, float64(owners))
}

// collect sends the kind's metrics to out, and adds the number of its claimed scopes to claims.
func (k *kind) collect(out chan<- prometheus.Metric, claims map[string]int) {
	type series struct {
		level string
		state State
	}
	feeds := map[series]int{}
	k.mu.RLock()
	k.each(func(n *node) {
		if n.claimed() {
			claims[n.scope.level()]++
		}
		if n.feed != nil {
			feeds[series{n.scope.level(), n.feed.state}]++
		}
	})
	k.mu.RUnlock()
	group, resource := k.key.gvk.Group, k.key.resource()
	for s, count := range feeds {
		out <- prometheus.MustNewConstMetric(descFeeds, prometheus.GaugeValue, float64(count), group, resource, s.level, string(s.state))
	}
	out <- prometheus.MustNewConstMetric(descObjects, prometheus.GaugeValue, float64(len(k.objects.index.ListKeys())), group, resource)
	out <- prometheus.MustNewConstMetric(descPending, prometheus.GaugeValue, float64(k.objects.handlers.pending()), group, resource)
}

// resource returns the kind's name in metrics, with the representation as a suffix unless it is typed.
func (k kindKey) resource() string {
	switch k.as {
	case dynamicObjects:
		return k.gvk.Version + "/" + k.gvk.Kind + "/unstructured"
	case metadataOnly:
		return k.gvk.Version + "/" + k.gvk.Kind + "/metadata"
	case typed:
	}
	return k.gvk.Version + "/" + k.gvk.Kind
}
