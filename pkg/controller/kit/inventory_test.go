package kit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env/exposition"
)

// pods is a cache that contains a number of Pods, or returns an error.
type pods struct {
	client.Reader
	number int
	err    error
}

func (p pods) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.PodList).Items = make([]corev1.Pod, p.number)
	return p.err
}

func TestInventory(t *testing.T) {
	count := prometheus.NewDesc("pod_count", "Number of Pods.", nil, nil)
	inventory := func(cached client.Reader) prometheus.Collector {
		return Inventory[*corev1.Pod]{
			Cached: cached, List: func() client.ObjectList { return &corev1.PodList{} }, Descs: []*prometheus.Desc{count},
			Metrics: func(all []*corev1.Pod) []prometheus.Metric { return []prometheus.Metric{Gauge(count, len(all))} },
		}
	}
	require.Equal(t, []string{"pod_count 3"}, exposition.Lines(t, inventory(pods{number: 3})))
	require.Equal(t, []string{"pod_count 0"}, exposition.Lines(t, inventory(pods{})))

	registry := prometheus.NewRegistry()
	require.NoError(t, RegisterMetrics(registry, inventory(pods{err: errors.New("not synced")})))
	_, err := registry.Gather()
	require.ErrorContains(t, err, "list *v1.PodList: not synced")
	require.Error(t, RegisterMetrics(registry, inventory(pods{})), "registered twice")
}

func TestLabelsOfMetricsAreBounded(t *testing.T) {
	phase := prometheus.NewDesc("pod_phase", "Phase of a Pod.", []string{"phase"}, nil)
	line := func(value string) string {
		return exposition.Lines(t, Inventory[*corev1.Pod]{
			Cached: pods{}, List: func() client.ObjectList { return &corev1.PodList{} }, Descs: []*prometheus.Desc{phase},
			Metrics: func([]*corev1.Pod) []prometheus.Metric { return []prometheus.Metric{Gauge(phase, 1, value)} },
		})[0]
	}
	require.Less(t, len(line(strings.Repeat("ä", 1<<20))), 2*MaxLabel)
	require.Equal(t, "pod_phase{phase=\"\uFFFD\"} 1", line("\xff"), "a value that is not valid UTF-8 must not end the program")
	name := strings.Repeat("n", 253)
	require.Contains(t, line(name), `"`+name+`"`, "names of objects are not truncated")
}
