// Package scopedcache_test compares pkg/lib/scopedcache with controller-runtime's cache. docs/benchmarks.md has results.
package scopedcache_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/test/env/controlplane"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	log.SetLogger(logr.Discard())
	m.Run()
}

// fixture is a control plane with the objects of a number of owners.
type fixture struct {
	admin      client.Client
	clientset  *kubernetes.Clientset
	config     *rest.Config
	namespaces []string
	// owned are the names of the owners' objects: each owner has one Secret and one ConfigMap.
	owned []client.ObjectKey
}

// start starts a control plane and creates the objects of the given number of owners, distributed over the given number
// of namespaces.
func start(b *testing.B, owners, namespaces int) *fixture {
	b.Helper()
	f := &fixture{config: controlplane.Start(b).Config()}
	var err error
	f.admin, err = client.New(f.config, client.Options{})
	require.NoError(b, err)
	f.clientset, err = kubernetes.NewForConfig(f.config)
	require.NoError(b, err)
	for i := range namespaces {
		f.namespaces = append(f.namespaces, fmt.Sprintf("tenant-%d", i))
	}
	for i := range owners {
		f.owned = append(f.owned, client.ObjectKey{Namespace: f.namespaces[i%namespaces], Name: fmt.Sprintf("owner-%d", i)})
	}
	each(b, f.namespaces, func(ctx context.Context, name string) error {
		return f.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	each(b, f.owned, func(ctx context.Context, key client.ObjectKey) error {
		meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
		if err := f.admin.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}); err != nil {
			return err
		}
		return f.admin.Create(ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"key": make([]byte, 1000)}})
	})
	return f
}

// each calls do for all items, 16 at a time.
func each[T any](b *testing.B, items []T, do func(context.Context, T) error) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	require.NoError(b, group.Wait())
}

// watches returns the number of open watches on Secrets and ConfigMaps, as the API server reports it.
func (f *fixture) watches(b *testing.B) int {
	b.Helper()
	text, err := f.clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	require.NoError(b, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(b, err)
	open := 0.0
	for _, metric := range families["apiserver_longrunning_requests"].GetMetric() {
		labels := map[string]string{}
		for _, l := range metric.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["verb"] == "WATCH" && labels["group"] == "" && slices.Contains([]string{"secrets", "configmaps"}, labels["resource"]) {
			open += metric.GetGauge().GetValue()
		}
	}
	return int(open)
}

// requests counts the requests that a cache sends to the API server.
type requests struct{ watches, lists, others, refused atomic.Int64 }

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		count := &r.others
		switch query := request.URL.Query(); {
		case query.Get("watch") != "":
			count = &r.watches
		case strings.HasPrefix(request.URL.Path, "/api/v1/"):
			count = &r.lists
		}
		count.Add(1)
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode == http.StatusForbidden {
			r.refused.Add(1)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// usage is the memory and the number of goroutines that the process uses at one point in time.
type usage struct {
	bytes      int64
	goroutines int
}

func measure() usage {
	var stats runtime.MemStats
	for range 3 { // repeat, because sync.Pools and finalizers keep objects alive during the first collection
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return usage{bytes: int64(stats.HeapAlloc + stats.StackInuse), goroutines: runtime.NumGoroutine()}
}

// quantile returns a quantile of times in milliseconds.
func quantile(times []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000
}

// patience is the timeout of each wait in a benchmark.
const patience = 2 * time.Minute

// wait waits until done returns true.
func wait(b *testing.B, interval time.Duration, what string, done func() bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(interval) {
		require.True(b, time.Now().Before(deadline), "timed out waiting for %s", what)
	}
}
