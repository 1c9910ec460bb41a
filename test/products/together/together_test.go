package together

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	// share is the maximum part of its memory limit that a program uses, in percent.
	share = 60
	// installs is the number of healthy installs, and rounds the number of times that they are measured.
	installs, rounds = 20, 3
)

// world is a cluster with all programs.
type world struct {
	testing.TB
	*env.Cluster

	images *registry.Server
}

func start(tb testing.TB) *world {
	tb.Helper()
	w := &world{TB: tb, images: registry.Start()}
	tb.Cleanup(w.images.Close)
	plain := []string{"--registry-plain-http=" + w.images.Host}
	var err error
	w.Cluster, err = env.Start(tb.Context(), env.Options{Extensions: true, Packages: true, ExtensionArgs: plain})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, w.Stop()) })
	return w
}

// tenant returns a namespace whose account has all permissions in it.
func (w *world) tenant() *env.Tenant {
	w.Helper()
	tn := w.Tenant(w.TB)
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	tn.Group(env.AccountName, tn.Namespace)
	return tn
}

// load is a set of attacks, each in its own namespace.
type load struct {
	*world
	attacks  []attack
	tenants  []*env.Tenant
	accepted sync.WaitGroup
}

// prepare creates the namespaces of the attacks.
func (w *world) prepare() *load {
	w.Helper()
	l := &load{world: w, attacks: attacks(w.images)}
	for range l.attacks {
		l.tenants = append(l.tenants, w.tenant())
	}
	return l
}

// ignore leaves the namespaces to OLM, so that Remit only watches what is written to them.
func (l *load) ignore() *load {
	l.Helper()
	for _, tn := range l.tenants {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, names.AnnotationManagedBy, names.ManagedByOLM))
		require.NoError(l, l.Client.Patch(l.Context(), &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group")}, patch))
	}
	return l
}

// begin starts all attacks at the same time.
func (l *load) begin() {
	for i, a := range l.attacks {
		l.accepted.Go(func() { a.start(l.tenants[i]) })
	}
}

// await waits until all attacks have been handled.
func (l *load) await() {
	l.Helper()
	l.accepted.Wait()
	for i, a := range l.attacks {
		l.Log("wait for", a.name)
		l.tenants[i].Eventually(func(c *assert.CollectT) { a.refused(l.tenants[i], c) })
	}
}

// programs returns the running programs, by name.
func (w *world) programs() map[string]oracle.Program {
	w.Helper()
	all, err := oracle.Programs(w.Cluster)
	require.NoError(w, err)
	out := map[string]oracle.Program{}
	for _, p := range all {
		out[p.Name] = p
	}
	return out
}

// check requires that the given programs still run, and that none has used more than a share of its memory limit since it started.
func (w *world) check(when string, expected map[string]oracle.Program) {
	w.Helper()
	require.Equal(w, expected, w.programs(), "%s: a program has been restarted", when)
	for name, p := range expected {
		d := &appsv1.Deployment{}
		require.NoError(w, w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Home, Name: "remit-" + name}, d))
		limit := int(d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value())
		peak := p.Peak()
		w.Logf("%s: %s used at most %d MiB, %d%% of %d MiB", when, name, peak>>20, 100*peak/limit, limit>>20)
		assert.Positive(w, peak)
		assert.Less(w, 100*peak/limit, share, "%s: percentage of the memory limit of %s", when, name)
	}
}

// restart ends the program of a ServiceAccount, and waits until its replacement has reconciled everything.
func (w *world) restart(account string) {
	w.Helper()
	name := strings.TrimPrefix(account, "remit-")
	old := w.programs()[name]
	require.NotZero(w, old.PID, name)
	require.NoError(w, syscall.Kill(old.PID, syscall.SIGTERM))
	before := 0
	env.Eventually(w, func(c *assert.CollectT) {
		now, found := w.programs()[name]
		if !assert.True(c, found && now != old) || !assert.True(c, w.IsReady(w.Context(), account)) {
			return
		}
		finished, pending, err := w.Work(w.Context(), account)
		assert.NoError(c, err)
		assert.True(c, finished > 0 && finished == before && pending == 0, "%d finished, %d pending", finished, pending)
		before = finished
	})
}

// TestProgramsStayBelowTheirMemoryLimits starts all attacks at the same time, and then restarts the programs, which read all
// objects again.
func TestProgramsStayBelowTheirMemoryLimits(t *testing.T) {
	w := start(t)
	all := w.prepare()
	running := w.programs()
	require.Len(t, running, 4)
	all.begin()
	all.await()
	w.check("at first", running)
	for _, account := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension} {
		w.restart(account)
	}
	w.check("after a restart", w.programs())
}

// healthy returns namespaces with catalogs that are ready.
func (w *world) healthy() []*env.Tenant {
	w.Helper()
	out := make([]*env.Tenant, installs)
	for i := range out {
		out[i] = w.tenant()
		out[i].Publish("catalog", "healthy.v1.0.0 stable")
	}
	for _, tn := range out {
		tn.Eventually(func(c *assert.CollectT) {
			source := &operatorsv1alpha1.CatalogSource{}
			assert.NoError(c, tn.Get("catalog", source))
			if assert.NotNil(c, source.Status.GRPCConnectionState) {
				assert.Equal(c, "READY", source.Status.GRPCConnectionState.LastObservedState)
			}
		})
	}
	return out
}

// install returns the time until all installs have succeeded.
func (w *world) install(all []*env.Tenant) time.Duration {
	w.Helper()
	begun := time.Now()
	for _, tn := range all {
		tn.Subscribe("catalog", "healthy", "stable")
	}
	pending := slices.Clone(all)
	env.Eventually(w, func(c *assert.CollectT) {
		pending = slices.DeleteFunc(pending, func(tn *env.Tenant) bool {
			got := &operatorsv1alpha1.ClusterServiceVersion{}
			assert.NoError(c, client.IgnoreNotFound(tn.Get("healthy.v1.0.0", got)))
			return got.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded
		})
		assert.Empty(c, pending)
	})
	return time.Since(begun)
}

// resetPeaks makes the kernel record the peaks of the programs from now on.
func (w *world) resetPeaks() {
	w.Helper()
	for _, p := range w.programs() {
		require.NoError(w, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID), []byte("5"), 0))
	}
}

// cpu returns the CPU-seconds that the control plane, which contains the API server and etcd, and each program have used so far.
func (w *world) cpu() map[string]float64 {
	w.Helper()
	pids := map[string]int{"control plane": w.PID}
	for name, p := range w.programs() {
		pids[name] = p.PID
	}
	out := map[string]float64{}
	for name, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(w, err)
		_, after, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(after)[11:13] { // the time in user mode and in the kernel, in hundredths of a second
			ticks, err := strconv.Atoi(field)
			require.NoError(w, err)
			out[name] += float64(ticks) / 100
		}
	}
	return out
}

// BenchmarkProducts prints the peak of each program during each attack alone.
func BenchmarkProducts(b *testing.B) {
	for range b.N {
		w := start(b)
		for _, a := range attacks(w.images) {
			tn := w.tenant()
			w.resetPeaks()
			a.start(tn)
			tn.Eventually(func(c *assert.CollectT) { a.refused(tn, c) })
			line := "| " + a.name
			for _, name := range []string{"catalog", "olm", "extension", "package-server"} {
				line += fmt.Sprintf(" | %d", w.programs()[name].Peak()>>20)
			}
			fmt.Println(line + " |")
		}
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkInstallsBesideProducts measures healthy installs alone; while all attacks are written; after the API server has accepted all;
// after Remit has handled all; and, twice, beside the same writes to namespaces that Remit ignores. The ratios are figures, not assertions: they depend on what else the
// machine does.
func BenchmarkInstallsBesideProducts(b *testing.B) {
	for range b.N {
		w := start(b)
		took := map[string][]float64{}
		for range rounds {
			took["alone"] = append(took["alone"], w.measure("alone", w.healthy()))

			l, all := w.prepare(), w.healthy()
			l.begin()
			took["beside"] = append(took["beside"], w.measure("beside", all))
			l.await()

			l, all = w.prepare(), w.healthy()
			l.begin()
			l.accepted.Wait()
			took["accepted"] = append(took["accepted"], w.measure("accepted", all))
			l.await()
			took["handled"] = append(took["handled"], w.measure("handled", w.healthy()))

			l, all = w.prepare().ignore(), w.healthy()
			l.begin()
			took["ignored"] = append(took["ignored"], w.measure("ignored", all))
			l.accepted.Wait()

			l, all = w.prepare().ignore(), w.healthy()
			l.begin()
			l.accepted.Wait()
			took["accepted, ignored"] = append(took["accepted, ignored"], w.measure("accepted, ignored", all))
			b.Logf("seconds so far: %v", took)
		}
		for _, seconds := range took {
			slices.Sort(seconds)
		}
		median := func(name string) float64 { return took[name][rounds/2] }
		for _, name := range slices.Sorted(maps.Keys(took)) {
			fmt.Printf("%d installs, %s: %.1f times as long as alone: %.1f s\n", installs, name, median(name)/median("alone"), took[name])
		}
		b.ReportMetric(median("beside")/median("alone"), "times-alone")
		b.ReportMetric(median("accepted")/median("alone"), "times-alone-accepted")
		b.ReportMetric(median("handled")/median("alone"), "times-alone-handled")
		b.ReportMetric(median("beside")/median("ignored"), "times-ignored")
		b.ReportMetric(0, "ns/op")
	}
}

// measure returns the seconds until all installs have succeeded, and logs the CPU-seconds that each program used meanwhile.
func (w *world) measure(name string, all []*env.Tenant) float64 {
	w.Helper()
	before := w.cpu()
	took := w.install(all).Seconds()
	for program, used := range w.cpu() {
		w.Logf("%s: %s used %.1f CPU-seconds", name, program, used-before[program])
	}
	return took
}
