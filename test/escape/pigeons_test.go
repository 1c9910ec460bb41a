package escape

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	// resolvers is the number of workers of the subscription controller.
	resolvers = 4
	// pigeons is the number of packages in an unsatisfiable problem. With so many packages, a solver cannot prove in
	// reasonable time that there is no solution.
	pigeons = 15
	stopped = "the limit for one namespace"
)

// resolutions returns rows about catalogs for which no solver can finish in reasonable time.
func resolutions() []row {
	return []row{
		{number: "151", title: "pigeonhole catalogs in one namespace per worker", holds: p0(), play: func(s *scene) {
			s.asksForPigeons()
			for i := range resolvers - 1 {
				s.beside(i).asksForPigeons()
			}
			s.settle() // meanwhile, another tenant can resolve and install
			s.refused(stopped, "package p")
		}},
		{number: "152", title: "1,000 CEL rules over 7,000 bundles", holds: p0(), directory: ruledCatalog, play: func(s *scene) {
			s.installDirectory()
			s.refused(stopped, "package "+probe)
		}},
		{number: "153", title: "a Subscription that is deleted while it is being resolved", holds: p0(), play: func(s *scene) {
			s.asksForPigeons()
			busy := s.usage(time.Second)
			s.Eventually(func(c *assert.CollectT) { assert.Greater(c, busy(), 0.1) }) // a long resolution uses half of a CPU, or less on a busy machine
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), s.Subscription(s.T)))
			idle := s.usage(5 * time.Second) // on a busy machine, the program may get no CPU time for a second
			s.Eventually(func(c *assert.CollectT) { assert.Less(c, idle(), 0.05) })
		}},
	}
}

// asksForPigeons subscribes to an operator that depends on several packages, each of which must provide a different
// kind, although there are fewer kinds than packages.
func (s *scene) asksForPigeons() {
	s.T.Helper()
	s.group(s.Namespace)
	s.publishText(pigeonholes())
	s.subscribe()
}

// beside creates another namespace for the row, with its own account, and returns the namespace's scene.
func (s *scene) beside(i int) *scene {
	s.T.Helper()
	namespace := fmt.Sprintf("%s-%d", s.Namespace, i)
	other := &scene{number: s.number, told: oracle.Scene{Namespace: namespace}, Tenant: &env.Tenant{T: s.T, Cluster: cluster, Namespace: namespace,
		Account: types.NamespacedName{Namespace: namespace, Name: accountName}}}
	other.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	other.account(accountName, p0())
	other.Enroll()
	s.told.Beside = append(s.told.Beside, other.Account)
	s.T.Cleanup(other.leave)
	return other
}

// entries builds a file-based catalog, object by object.
type entries struct{ out strings.Builder }

func (e *entries) add(v map[string]any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values come from a test
	}
	e.out.Write(append(raw, '\n'))
}

// pkg adds a package to the catalog. Each version has the given properties and replaces the previous version.
func (e *entries) pkg(name string, versions ...[]any) {
	e.add(map[string]any{"schema": "olm.package", "name": name, "defaultChannel": forge.Channel})
	var channel []any
	for i, properties := range versions {
		version := fmt.Sprintf("1.%d.0", i)
		entry := map[string]any{"name": name + ".v" + version}
		if i > 0 {
			entry["replaces"] = fmt.Sprintf("%s.v1.%d.0", name, i-1)
		}
		channel = append(channel, entry)
		properties = append([]any{stated("olm.package", map[string]any{"packageName": name, "version": version})}, properties...)
		e.add(map[string]any{"schema": "olm.bundle", "package": name, "name": entry["name"], "properties": properties})
	}
	e.add(map[string]any{"schema": "olm.channel", "package": name, "name": forge.Channel, "entries": channel})
}

func stated(kind string, value any) any { return map[string]any{"type": kind, "value": value} }

func pigeonholes() string {
	var e entries
	var needs []any
	for p := range pigeons {
		name := fmt.Sprint("p", p)
		var versions [][]any
		for hole := range pigeons - 1 {
			versions = append(versions, []any{stated("olm.gvk", map[string]any{"group": "holes.example.com", "version": "v1", "kind": fmt.Sprint("Hole", hole)})})
		}
		e.pkg(name, versions...)
		needs = append(needs, stated("olm.package.required", map[string]any{"packageName": name, "versionRange": ">=1.0.0"}))
	}
	e.pkg(probe, needs)
	return e.out.String()
}

func ruledCatalog() string {
	var e entries
	for i := range 7_000 {
		e.pkg(fmt.Sprint("other", i), []any{})
	}
	var rules []any
	for i := range 1_000 {
		rule := fmt.Sprintf("properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'nobody%d')", i)
		rules = append(rules, stated("olm.constraint", map[string]any{"cel": map[string]any{"rule": rule}}))
	}
	e.pkg(probe, rules)
	return e.out.String()
}

// usage returns a function that measures the catalog program's share of one CPU. Each measurement covers at least the
// window; in between, the function returns the previous result.
func (s *scene) usage(window time.Duration) func() float64 {
	s.T.Helper()
	programs, err := oracle.Programs(cluster)
	require.NoError(s.T, err)
	pid := 0
	for _, p := range programs {
		if p.Name == "catalog" {
			pid = p.PID
		}
	}
	require.NotZero(s.T, pid)
	before, since := s.cpuTime(pid), time.Now()
	last := math.NaN() // before the first measurement, the program is neither busy nor idle
	return func() float64 {
		if passed := time.Since(since); passed >= window {
			now := s.cpuTime(pid)
			last = float64(now-before) / float64(passed)
			before, since = now, time.Now()
		}
		return last
	}
}

// cpuTime returns the CPU time that a process has used so far, according to the kernel.
func (s *scene) cpuTime(pid int) time.Duration {
	s.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(s.T, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // fields[0] is the third field of the file
	const user, system, hertz = 11, 12, 100
	ticks := 0
	for _, i := range []int{user, system} {
		n, err := strconv.Atoi(fields[i])
		require.NoError(s.T, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / hertz
}
