package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// installs is the number of operators that are installed one after the other: enough for a stable median, but few
	// enough to finish within half a minute.
	installs = 15
	// together is the number of namespaces that subscribe at the same time.
	together = 50
	// aftermath is how long requests are recorded after the installs.
	aftermath = time.Minute
	// patience is the timeout of a single install, with a margin for slow machines.
	patience = 5 * time.Minute
)

func image(n int) string { return fmt.Sprintf("catalogs.test/small-%d", n) }

// small makes a variant of the sample bundle independent of other installs. No other install creates its
// CustomResourceDefinition, and the Pods of its image become Ready without running a process.
func small(v env.Variant, n int) {
	v.SetGroup(fmt.Sprintf("small-%d.remit.dev", n))
	v.SetImage("images.test/small:1")
}

// tenant returns a namespace that is prepared for a Subscription to the nth catalog. It has a CatalogSource and an
// account with exactly the permissions that the install needs.
func tenant(b testing.TB, n int) *env.Tenant {
	b.Helper()
	tn := cluster(b).Tenant(b)
	tn.GrantAll(tn.Needs(content(b, n), bundle.Package, tn.Namespace))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(n))
	return tn
}

// ready waits until the tenant's catalog is ready.
func ready(tn *env.Tenant) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		source := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", source))
		if assert.NotNil(c, source.Status.GRPCConnectionState) {
			assert.Equal(c, "READY", source.Status.GRPCConnectionState.LastObservedState)
		}
	})
}

// succeeding calls do and returns how long it takes until the CSV of each tenant has succeeded.
func succeeding(b *testing.B, tenants []*env.Tenant, do func()) []time.Duration {
	b.Helper()
	var namespaces []string
	for _, tn := range tenants {
		namespaces = append(namespaces, tn.Namespace)
	}
	return timed(b, &operatorsv1alpha1.ClusterServiceVersionList{}, namespaces, func(obj client.Object) string {
		if csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion); ok && csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded {
			return csv.Namespace
		}
		return ""
	}, do)
}

// timed calls do and returns how long it takes until a watch has reported an object for each of the keys.
func timed(b *testing.B, list client.ObjectList, keys []string, key func(client.Object) string, do func()) []time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	waiting := map[string]bool{}
	for _, k := range keys {
		waiting[k] = true
	}
	watch, err := cluster(b).Client.Watch(ctx, list)
	require.NoError(b, err)
	defer watch.Stop()
	var out []time.Duration
	begin := time.Now()
	go do()
	for len(waiting) > 0 {
		e, ok := <-watch.ResultChan()
		require.True(b, ok, "still waiting for %v", waiting)
		if obj, ok := e.Object.(client.Object); ok && waiting[key(obj)] {
			delete(waiting, key(obj))
			out = append(out, time.Since(begin))
		}
	}
	return out
}

func subscribe(tn *env.Tenant) {
	err := tn.Cluster.Client.Create(context.Background(), &operatorsv1alpha1.Subscription{ObjectMeta: tn.Meta("small"),
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: "catalog", CatalogSourceNamespace: tn.Namespace, Package: bundle.Package, Channel: bundle.Channel,
		}})
	assert.NoError(tn.T, err)
}

// BenchmarkInstall measures the installs of small operators one after the other, each in its own bounded namespace.
func BenchmarkInstall(b *testing.B) {
	var times []time.Duration
	var requests []int
	for range b.N {
		for n := range installs {
			tn := tenant(b, n)
			ready(tn)
			quiet(b)
			from := mark(b)
			times = append(times, succeeding(b, []*env.Tenant{tn}, func() { subscribe(tn) })...)
			tn.Succeeded(bundle.CSV)
			quiet(b)
			sent := between(b, from, mark(b))
			requests = append(requests, len(sent))
			if n == installs-1 {
				report(fmt.Sprintf("Requests of one install (%d):", len(sent)), sent.table())
			}
		}
	}
	reportInstalls(b, times, requests)
}

// reportInstalls reports how long the installs took and how many requests each of them sent. It returns the median number of
// requests.
func reportInstalls(b *testing.B, times []time.Duration, counts []int) (median int) {
	b.Helper()
	counts = slices.Sorted(slices.Values(counts))
	median = counts[len(counts)/2]
	b.ReportMetric(quantile(times, 0.5).Seconds(), "s/median")
	b.ReportMetric(quantile(times, 1).Seconds(), "s/max")
	b.ReportMetric(float64(median), "requests/median")
	b.ReportMetric(float64(counts[len(counts)-1]), "requests/max")
	b.ReportMetric(0, "ns/op")
	return median
}

// BenchmarkInstallTogether measures installs in many bounded namespaces whose Subscriptions are created at the same
// time.
func BenchmarkInstallTogether(b *testing.B) {
	var times []time.Duration
	var sent, after requests
	for range b.N {
		var tenants []*env.Tenant
		for range together {
			tenants = append(tenants, tenant(b, installs))
		}
		for _, tn := range tenants {
			ready(tn)
		}
		quiet(b)
		from := mark(b)
		times = succeeding(b, tenants, func() {
			for _, tn := range tenants {
				go subscribe(tn)
			}
		})
		for _, tn := range tenants {
			tn.Succeeded(bundle.CSV)
		}
		quiet(b)
		done := mark(b)
		sent = between(b, from, done)
		time.Sleep(aftermath)
		after = between(b, done, mark(b))
		report(fmt.Sprintf("Requests of %d concurrent installs (%d):", together, len(sent)), sent.table())
		report(fmt.Sprintf("Requests in the %s after them (%d):", aftermath, len(after)), after.table())
	}
	b.ReportMetric(times[len(times)/2].Seconds(), "s/median")
	b.ReportMetric(times[len(times)-1].Seconds(), "s/last")
	b.ReportMetric(float64(len(sent))/together, "requests/install")
	b.ReportMetric(float64(len(after)), "requests/minute-after")
	b.ReportMetric(0, "ns/op")
}
