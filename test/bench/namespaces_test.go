package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

const (
	// envNamespaces and envIdle are environment variables: the numbers of namespaces of BenchmarkNamespaces, separated by commas, and
	// how long it records requests after the installs.
	envNamespaces, envIdle = "BENCH_NAMESPACES", "BENCH_IDLE"
	// releases is the number of versions of each package in the catalog, and packages the number of packages. The largest published
	// catalogs have about as many bundles.
	packages, releases = 350, 20
	fleetImage         = "catalogs.test/fleet"
	// inFlight is the number of installs at the same time, and helpers the number of namespaces that are prepared at the same time.
	inFlight, helpers = 4, 8
	// perCopy is how long a copy of the operator for all namespaces may take on average.
	perCopy = time.Second / 2
	// eventRetry is longer than the delay after which client-go writes an event again that was emitted twice within a few
	// milliseconds.
	eventRetry = 15 * time.Second
	// maxFleetRequests is the maximum average number of requests of one install: by the programs and as the account.
	maxFleetRequests = 32
)

// fleet is a cluster with all of Remit's programs, one bounded operator in each of its namespaces, and one operator for all
// namespaces, whose ClusterServiceVersion is copied to them. All operators come from one global catalog.
type fleet struct {
	recorder
	tb       testing.TB
	tenants  []*env.Tenant
	packages int
}

// TestNamespaces checks the results that are the same on any machine: how many requests an install causes, and that there are none
// afterwards.
func TestNamespaces(t *testing.T) {
	f := newFleet(t, 20, packages) // a large catalog, which is not loaded at once after a restart
	times, sent := f.install()
	require.Len(t, times, len(f.tenants))
	t.Logf("%d requests of %d installs", len(sent), len(times))
	require.LessOrEqual(t, len(sent), maxFleetRequests*len(times)+maxProgress(times), strings.Join(sent.table(), "\n"))
	idle := f.idle(10 * time.Second)
	require.Empty(t, idle.busy(f.cluster).table())
	require.NotEmpty(t, resident(t, f.cluster))
	for _, program := range restarted {
		require.Empty(t, f.restart(program).writes.table(), program)
	}
}

// limitsMemory are the limits of the resident memory of catalog and olm without the informers of RBAC, by the number of namespaces.
var limitsMemory = map[int]string{500: "≤ 150 MiB", 2000: "≤ 300 MiB"}

// BenchmarkNamespaces measures what Remit needs on a cluster with many namespaces: for their installs, while idle, after a grant in
// one of them, and after a restart.
func BenchmarkNamespaces(b *testing.B) {
	pause, err := time.ParseDuration(cmp.Or(os.Getenv(envIdle), "5m"))
	require.NoError(b, err)
	for _, n := range numbers(b, envNamespaces, "500,2000") {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				f := newFleet(b, n, packages)
				report("Resident memory before the installs:", memoryTable(resident(b, f.cluster)))
				f.measureInstalls(b)
				f.measureIdling(b, pause)
				f.measureMemory(b)
				f.measureGrants(b)
				f.measureRestarts(b)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// subject returns the beginning of the names of the fleet's results.
func (f *fleet) subject() string { return fmt.Sprintf("%d namespaces: ", len(f.tenants)) }

func (f *fleet) measureInstalls(b *testing.B) {
	b.Helper()
	byNamespace, sent := f.install()
	times := slices.Collect(maps.Values(byNamespace))
	requests := float64(len(sent)) / float64(len(times))
	report(fmt.Sprintf("Requests of %d installs, by identity and verb (%d):", len(times), len(sent)), sent.byVerb())
	report("Requests of these installs in detail:", sent.table())
	report("From Subscription to Succeeded:", []string{quantiles(times)})
	b.ReportMetric(quantile(times, 0.5).Seconds(), "s/median")
	b.ReportMetric(quantile(times, 0.99).Seconds(), "s/p99")
	b.ReportMetric(requests, "requests/install")
	record(row{name: f.subject() + "from the creation of a Subscription to Succeeded, median / p99 / maximum", result: inSeconds(times, 0.5, 0.99, 1)},
		row{name: f.subject() + "requests of each install, on average", result: fmt.Sprintf("%.1f", requests)})
}

func (f *fleet) measureIdling(b *testing.B, pause time.Duration) {
	b.Helper()
	sent := f.idle(pause)
	busy := sent.busy(f.cluster)
	report(fmt.Sprintf("Requests in %s of idling, including watches and Leases (%d):", pause, len(sent)), sent.table())
	b.ReportMetric(float64(len(busy)), "requests-idle")
	record(row{name: f.subject() + fmt.Sprintf("requests in %.3g idle minutes, except watches and Leases", pause.Minutes()), result: fmt.Sprint(len(busy)), limit: "0"})
}

func (f *fleet) measureMemory(b *testing.B) {
	b.Helper()
	all := resident(b, f.cluster)
	report("Resident memory after idling:", memoryTable(all))
	var sum, both memory
	for program, m := range all {
		sum.add(m)
		if slices.Contains(restarted, program) {
			both.add(m)
		}
	}
	grants := float64(rbacHeap(b, f.cluster)) / (1 << 20)
	b.ReportMetric(float64(sum.total)/1024, "MiB-resident")
	b.ReportMetric(float64(sum.anonymous)/1024, "MiB-anonymous")
	b.ReportMetric(float64(sum.mapped)/1024, "MiB-mapped")
	b.ReportMetric(float64(sum.proportional)/1024, "MiB-PSS")
	b.ReportMetric(grants, "MiB-RBAC/program")
	without := float64(both.total)/1024 - float64(len(restarted))*grants
	record(row{name: f.subject() + "resident memory of catalog and olm: in total / anonymous / mapped from files", result: both.parts()},
		row{name: f.subject() + "resident memory of catalog and olm without the informers of RBAC", result: fmt.Sprintf("%.0f MiB", without), limit: limitsMemory[len(f.tenants)]})
	for _, program := range slices.Sorted(maps.Keys(all)) {
		record(row{name: f.subject() + "resident memory of " + program, result: all[program].parts()})
	}
	record(row{name: f.subject() + "heap for the informers of RBAC, in each of catalog, olm and extension", result: fmt.Sprintf("%.1f MiB", grants)})
}

func (f *fleet) measureGrants(b *testing.B) {
	b.Helper()
	by, refused := f.grants(b)
	times := reportGrants(b, fmt.Sprintf("%sfrom a grant to the account's next successful write, after %d refused writes in total:", f.subject(), refused), env.Pieces(), by)
	record(row{name: f.subject() + fmt.Sprintf("from a grant to the next write, p50 / p99 / maximum of %d", len(times)), result: inMillis(times, 0.5, 0.99, 1), limit: limitGrant})
}

func (f *fleet) measureRestarts(b *testing.B) {
	b.Helper()
	for _, program := range restarted {
		s := f.restart(program)
		report(fmt.Sprintf("%sRequests after the restart of %s (%d):", f.subject(), program, len(s.sent)), s.sent.table())
		report(fmt.Sprintf("Of these, writes (%d):", len(s.writes)), s.writes.table())
		b.ReportMetric(s.done.Seconds(), "s/restart-"+program)
		subject := f.subject() + "restart of " + program + ": "
		record(row{name: subject + "until ready / all reconciled", result: fmt.Sprintf("%.1f / %.1f s", s.ready.Seconds(), s.done.Seconds())},
			row{name: subject + "peak / final resident memory", result: fmt.Sprintf("%d / %d MiB", s.after.peak>>10, s.after.total>>10)},
			row{name: subject + "writes, except Leases", result: fmt.Sprint(len(s.writes)), limit: "0"})
	}
}

// newFleet starts the cluster, installs the operator for all namespaces, and prepares n namespaces for Subscriptions.
func newFleet(tb testing.TB, n, packages int) *fleet {
	tb.Helper()
	dir := tb.TempDir()
	for i := range packages {
		pkg := fmt.Sprint("fleet-", i)
		require.NoError(tb, os.WriteFile(filepath.Join(dir, pkg+".json"), []byte(env.Releases(lineage(pkg)...)), 0o600))
	}
	global := env.Releases("global.v1.0.0 stable global")
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "global.json"), []byte(global), 0o600))
	c, err := env.Start(context.Background(), env.Options{Extensions: true, Packages: true, Catalogs: map[string]string{fleetImage: dir}})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, c.Stop()) })
	f := &fleet{recorder: recorder{cluster: c}, tb: tb, packages: packages}

	source := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: c.Catalogs, Name: "fleet"},
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: fleetImage}}
	require.NoError(tb, c.Client.Create(tb.Context(), source))
	everywhere := c.Tenant(tb)
	everywhere.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	everywhere.Group(env.AccountName)
	everywhere.Subscribe("fleet", "global", "stable", f.fromGlobal)
	f.tenants = make([]*env.Tenant, n)
	each(n, helpers, func(i int) {
		tn := c.Tenant(tb)
		tn.GrantReleases()
		tn.Group(env.AccountName, tn.Namespace)
		f.tenants[i] = tn
	})
	require.False(tb, tb.Failed(), "a namespace could not be prepared")
	everywhere.Succeeded("global.v1.0.0")
	require.EventuallyWithT(tb, func(c *assert.CollectT) {
		copies := kit.Copies()
		assert.NoError(c, f.cluster.Client.List(tb.Context(), copies, client.HasLabels{names.LabelCopiedFrom}))
		assert.GreaterOrEqual(c, len(copies.Items), n)
	}, max(env.Patience, time.Duration(n)*perCopy), time.Second)
	return f
}

// lineage returns the lines of a package for env.Releases: one channel with a linear history.
func lineage(pkg string) (out []string) {
	for i := range releases {
		line := fmt.Sprintf("%s.v1.%d.0 stable", pkg, i)
		if i > 0 {
			line += fmt.Sprintf(" replaces=%s.v1.%d.0", pkg, i-1)
		}
		out = append(out, line)
	}
	return out
}

func (f *fleet) fromGlobal(s *operatorsv1alpha1.SubscriptionSpec) {
	s.CatalogSourceNamespace = f.cluster.Catalogs
}

// install subscribes all namespaces, a few at a time. It returns the time from the creation of each Subscription until its
// ClusterServiceVersion has succeeded, keyed by the namespace, and the requests of all installs.
func (f *fleet) install() (map[string]time.Duration, requests) {
	f.tb.Helper()
	from := f.quiet(f.tb)
	succeeded := f.watch()
	var mu sync.Mutex
	times := map[string]time.Duration{}
	each(len(f.tenants), inFlight, func(i int) {
		tn := f.tenants[i]
		start := time.Now()
		tn.Subscribe("fleet", fmt.Sprint("fleet-", i%f.packages), "stable", f.fromGlobal)
		select {
		case <-succeeded[tn.Namespace]:
			mu.Lock()
			defer mu.Unlock()
			times[tn.Namespace] = time.Since(start)
		case <-time.After(patience):
			f.tb.Errorf("namespace %s: no ClusterServiceVersion has succeeded after %s", tn.Namespace, patience)
		}
	})
	return times, f.all[from:f.quiet(f.tb)]
}

// watch returns a channel for each namespace, which is closed when the namespace's own ClusterServiceVersion has succeeded.
func (f *fleet) watch() map[string]chan struct{} {
	f.tb.Helper()
	waiting, out := map[string]chan struct{}{}, map[string]chan struct{}{}
	for _, tn := range f.tenants {
		waiting[tn.Namespace] = make(chan struct{})
	}
	maps.Copy(out, waiting)
	watch, err := f.cluster.Client.Watch(f.tb.Context(), &operatorsv1alpha1.ClusterServiceVersionList{}, client.MatchingLabelsSelector{Selector: kit.IsNotCopied()})
	require.NoError(f.tb, err)
	go func() {
		defer watch.Stop()
		for e := range watch.ResultChan() {
			csv, ok := e.Object.(*operatorsv1alpha1.ClusterServiceVersion)
			if ok && csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded && waiting[csv.Namespace] != nil {
				close(waiting[csv.Namespace])
				delete(waiting, csv.Namespace)
			}
		}
	}()
	return out
}

// idle waits and returns all requests of Remit in that time, including watches and requests for Leases.
func (f *fleet) idle(pause time.Duration) requests {
	f.tb.Helper()
	time.Sleep(eventRetry)
	from := f.offset()
	time.Sleep(pause)
	identities := f.cluster.ControllerIdentities()
	sent, _, err := f.cluster.AuditedFrom(f.tb.Context(), from, func(e audit.Event) bool {
		return identities.Is(e) || sender(e) == "account"
	})
	require.NoError(f.tb, err)
	return sent
}

// busy returns the requests that are neither watches nor requests for Leases. It also omits package-server's
// SubjectAccessReviews: package-server sends them when it receives a request, for example when a component discovers its API.
func (r requests) busy(c *env.Cluster) requests {
	identities := c.ControllerIdentities()
	return slices.DeleteFunc(slices.Clone(r), func(e audit.Event) bool {
		review := e.Object != nil && e.Object.Resource == "subjectaccessreviews" && sender(e) == names.ServiceAccountPackageServer
		return review || !ours(identities, e)
	})
}

// maxProgress returns how many more requests installs may send that take longer than the controllers delay the statuses that only
// report progress. The time is not taken from the product, so that the product cannot change it unnoticed.
func maxProgress(times map[string]time.Duration) (out int) {
	const delay, perDelay = 2 * time.Second, 8
	for _, d := range times {
		out += perDelay * int(d/delay)
	}
	return out
}

// byVerb counts the requests by identity and verb.
func (r requests) byVerb() []string {
	counts := map[string]int{}
	for _, e := range r {
		counts[fmt.Sprintf("%-24s %-8s", sender(e), e.Verb)]++
	}
	var out []string
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprint(line, " ", counts[line]))
	}
	return out
}

// rbacHeap returns the number of bytes on the heap that informers of all RBAC objects need in one program. It starts the same
// informers as Remit's programs, with the same indexes and without managed fields.
func rbacHeap(tb testing.TB, c *env.Cluster) uint64 {
	tb.Helper()
	ctrllog.SetLogger(logr.Discard()) // silences the cache
	informers, err := cache.New(c.Config(), cache.Options{Scheme: c.Client.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	require.NoError(tb, err)
	before := heap()
	for _, kind := range []client.Object{&rbacv1.Role{}, &rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{}} {
		informer, err := informers.GetInformer(tb.Context(), kind, cache.BlockUntilSynced(false))
		require.NoError(tb, err)
		if strings.HasSuffix(fmt.Sprintf("%T", kind), "Binding") {
			require.NoError(tb, informer.AddIndexers(rbac.BindingIndexers()))
		}
	}
	ctx, stop := context.WithCancel(tb.Context())
	defer stop()
	go func() { assert.NoError(tb, informers.Start(ctx)) }()
	require.True(tb, informers.WaitForCacheSync(ctx))
	after := heap()
	runtime.KeepAlive(informers)
	return after - min(before, after)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
