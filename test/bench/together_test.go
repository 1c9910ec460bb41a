package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// envTogether is an environment variable: the numbers of namespaces that subscribe at the same time, separated by commas.
const envTogether = "BENCH_TOGETHER"

// limitsTogether contains the limits for the time until all installs have succeeded, by the number of installs.
var limitsTogether = map[int]string{50: "all ≤ 10 s", 400: "all ≤ 60 s"}

// BenchmarkInstallTogether measures installs in many bounded namespaces whose Subscriptions are created at the same time.
//
// It compares the time and the CPU time with those of applying the same objects to as many namespaces at the same time.
func BenchmarkInstallTogether(b *testing.B) {
	for _, n := range numbers(b, envTogether, "50,400") {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				installTogether(b, n)
			}
		})
	}
}

func installTogether(b *testing.B, n int) {
	b.Helper()
	tenants := make([]*env.Tenant, n)
	each(n, helpers, func(i int) { tenants[i] = tenant(b, installs) })
	for _, tn := range tenants {
		ready(tn)
	}
	quiet(b)
	from := mark(b)
	times, used := using(b, func() []time.Duration {
		return succeeding(b, tenants, func() {
			for _, tn := range tenants {
				go subscribe(tn)
			}
		})
	})
	for _, tn := range tenants {
		tn.Succeeded(bundle.CSV)
	}
	quiet(b)
	done := mark(b)
	sent := between(b, from, done)
	time.Sleep(aftermath)
	after := between(b, done, mark(b))
	together{n, sent, after, times, used}.report(b, appliedTogether(b, tenants[0], n))
}

// together is the measurement of a number of concurrent installs: the requests until they have succeeded and afterwards, the time
// until each of them has succeeded, and the CPU time until all of them have.
type together struct {
	n           int
	sent, after requests
	times       []time.Duration
	used        usage
}

func (t together) report(b *testing.B, bare together) {
	b.Helper()
	report(fmt.Sprintf("Requests of %d concurrent installs (%d):", t.n, len(t.sent)), t.sent.table())
	report(fmt.Sprintf("Requests in the %s after them (%d):", aftermath, len(t.after)), t.after.table())
	report(fmt.Sprintf("CPU time until all of the %d installs have succeeded:", t.n), t.used.table())
	report(fmt.Sprintf("CPU time until all objects of these %d installs have been applied without Remit:", t.n), bare.used.table())
	report("Resident memory after these installs:", memoryTable(resident(b, cluster(b))))
	requests := float64(len(t.sent)) / float64(t.n)
	b.ReportMetric(quantile(t.times, 0.5).Seconds(), "s/median")
	b.ReportMetric(quantile(t.times, 1).Seconds(), "s/last")
	b.ReportMetric(quantile(bare.times, 1).Seconds(), "s/last-bare")
	b.ReportMetric(requests, "requests/install")
	b.ReportMetric(float64(len(t.after)), "requests/minute-after")
	b.ReportMetric(0, "ns/op")
	subject := fmt.Sprintf("%d installs at once: ", t.n)
	record(row{name: subject + "until half / all have succeeded", result: inSeconds(t.times, 0.5, 1), limit: limitsTogether[t.n], bare: inSeconds(bare.times, 0.5, 1)},
		row{name: subject + "CPU time of Remit / the control plane / the benchmark / other processes / idle", result: t.used.summary(), bare: bare.used.summary()},
		row{name: subject + "requests of each, on average", result: fmt.Sprintf("%.1f", requests)},
		row{name: subject + "requests in the minute after them", result: fmt.Sprint(len(t.after)), limit: "0"})
}

// using calls do, and returns its result and the CPU time that was used in the meantime.
func using(b *testing.B, do func() []time.Duration) ([]time.Duration, usage) {
	b.Helper()
	before := spent(b, cluster(b))
	out := do()
	return out, spent(b, cluster(b)).since(before)
}

// appliedTogether applies the objects that a tenant has installed to n other namespaces, all at the same time and over one
// connection. It omits the CustomResourceDefinition, which all installs share.
func appliedTogether(b *testing.B, from *env.Tenant, n int) (out together) {
	b.Helper()
	live := slices.DeleteFunc(installed(b, from), func(obj unstructured.Unstructured) bool { return obj.GetNamespace() == "" })
	all := make([]*bare, n)
	each(n, helpers, func(i int) { all[i] = newBare(b, live, installs) })
	quiet(b)
	out.times, out.used = using(b, func() []time.Duration { return applying(b, all) })
	return out
}
