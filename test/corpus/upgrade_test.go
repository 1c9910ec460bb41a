package corpus

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/corpus"
)

// walk is a set of upgrades of real operators that are tested in one namespace.
type walk struct {
	name     string
	packages []string
	// published is the version of a catalog in the corpus that also contains these packages, with its own channels.
	published string
	// sample is true if the default tests include the first round of the walk.
	sample bool
	// brought maps packages to the versions that are installed as dependencies.
	brought map[string]string
	// heldBack maps each package to the message in which its Subscription finally reports why it is not upgraded further.
	heldBack map[string]string
}

var walks = []walk{
	{name: "cockroachdb", packages: []string{"cockroachdb"}, sample: true},
	{name: "prometheus", packages: []string{"prometheus"}},
	{name: "rabbitmq", packages: []string{"rabbitmq-cluster-operator"}, published: "v4.20"},
	{name: "kuadrant-parts", packages: []string{"authorino-operator", "limitador-operator", "dns-operator"}},
	// kuadrant-operator requires an exact version of each dependency, so the dependencies are not upgraded further.
	{name: "kuadrant", packages: []string{"kuadrant-operator"}, brought: map[string]string{
		"authorino-operator": "authorino-operator.v0.13.0", "limitador-operator": "limitador-operator.v0.11.0", "dns-operator": "dns-operator.v0.6.0",
	}, heldBack: map[string]string{
		"authorino-operator": "authorino-operator.v0.13.1 of channel stable cannot replace authorino-operator.v0.13.0: bundle kuadrant-operator.v0.11.1 requires " +
			"an operator with package: authorino-operator and with version in range: 0.13.0",
	}},
}

// stepPatience is the timeout of one step.
const stepPatience = 4 * time.Minute

// TestUpgradesRealOperatorsAlongEveryEdge tests the edges of the upgrade graphs of real operators as a user would, and
// reports why the other edges cannot be tested.
func TestUpgradesRealOperatorsAlongEveryEdge(t *testing.T) {
	t.Parallel()
	root := corpus.Dir(t, "bundles")
	pick := os.Getenv("CORPUS_WALK")
	for _, w := range walks {
		if pick == "" || pick == w.name {
			t.Run(w.name, func(t *testing.T) { w.run(t, root) })
		}
	}
}

// isWhole reports whether the walks are tested completely.
func isWhole() bool { return os.Getenv("CORPUS_WALK") != "" || isComplete() }

// asked returns how many of the walk's rounds to run.
func (w walk) asked(rounds int) int {
	if isWhole() {
		return rounds
	}
	return min(1, rounds)
}

func (w walk) run(t *testing.T, root string) {
	if !isWhole() && !w.sample {
		t.Skip("CORPUS=all tests it")
	}
	graphs := w.graphs(t, root)
	edges := w.edges(t, root, graphs)
	rounds := w.rounds(t, graphs[0], edges)
	walked := map[*edge]bool{}
	for i, round := range rounds[:w.asked(len(rounds))] {
		w.walkRound(t, root, i, round)
		for _, p := range round {
			for _, e := range p.edges {
				walked[e] = true
			}
		}
	}
	counts := map[string]int{}
	for _, e := range edges {
		switch {
		case walked[e]:
			t.Logf("tested:     %s", e)
			counts["walked"]++
		case e.why != "":
			t.Logf("impossible: %s: %s", e, e.why)
			counts["not"]++
		case len(rounds) == w.asked(len(rounds)):
			t.Errorf("neither tested nor explained: %s", e)
		default:
			t.Logf("skipped:    %s: CORPUS=all tests it, in channel %s", e, e.channel)
			counts["not now"]++
		}
	}
	t.Logf("%s: %d edges: %d tested in %d rounds, %d impossible on current clusters, %d skipped",
		w.name, len(edges), counts["walked"], w.asked(len(rounds)), counts["not"], counts["not now"])
}

// graphs returns the graph that the bundles define and, if published is set, the graph that the published catalog
// defines.
func (w walk) graphs(t *testing.T, root string) []*graph {
	t.Helper()
	out := []*graph{asBundles(t, root, w.all())}
	if w.published != "" {
		out = append(out, asPublished(t, root, w.published, w.packages[0]))
	}
	return out
}

func (w walk) all() []string { return slices.Concat(w.packages, slices.Sorted(maps.Keys(w.brought))) }

// edges returns the classified edges of all graphs. An edge that is tested in one graph is not tested again in the next.
func (w walk) edges(t *testing.T, root string, graphs []*graph) []*edge {
	t.Helper()
	unserved := map[string]string{}
	var out []*edge
	for _, pkg := range w.packages {
		for _, p := range versions(t, root, pkg) {
			unserved[p.CSV.Name] = p.unserved()
		}
		known := map[[2]string]bool{}
		for _, g := range graphs {
			for _, e := range g.edges(pkg) {
				e.classify(unserved)
				if key := [2]string{e.from, e.to}; !known[key] {
					known[key] = e.why == ""
					out = append(out, e)
				}
			}
		}
	}
	return out
}

// rounds returns the paths that are tested together: the first of each package, then the second of each, and so on. A
// package without edges is only installed.
func (w walk) rounds(t *testing.T, bundles *graph, edges []*edge) [][]*path {
	t.Helper()
	var out [][]*path
	for _, pkg := range w.packages {
		own := slices.DeleteFunc(slices.Clone(edges), func(e *edge) bool { return e.pkg != pkg })
		all := paths(own)
		if len(all) == 0 {
			p := bundles.Packages[pkg]
			head, err := p.Channels[p.DefaultChannel].Head()
			require.NoError(t, err)
			all = []*path{{graph: bundles, pkg: pkg, start: head.Name, channel: p.DefaultChannel}}
		}
		for i, p := range all {
			if i == len(out) {
				out = append(out, nil)
			}
			out[i] = append(out[i], p)
		}
	}
	return out
}

// versions returns the versions of a package in the corpus.
func versions(t *testing.T, root, pkg string) []*published {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, pkg, "*"))
	require.NoError(t, err)
	var out []*published
	for _, dir := range dirs {
		out = append(out, readAll(t, root, []string{pkg + "/" + filepath.Base(dir)})...)
	}
	return out
}

// walker follows the paths of a round in one namespace. It approves plans explicitly, so that Subscriptions follow only
// the intended edges.
type walker struct {
	t       *testing.T
	cluster *env.Cluster
	tn      *env.Tenant
	paths   map[string]*path
	// seen maps packages to the versions installed so far, in order.
	seen map[string][]string
}

func (w walk) walkRound(t *testing.T, root string, number int, round []*path) {
	t.Helper()
	catalogs, paths := map[string]string{}, map[string]*path{}
	for _, p := range round {
		catalogs["catalogs.test/"+p.graph.name] = p.graph.dir
		paths[p.pkg] = p
	}
	cluster, err := env.Start(context.Background(), env.Options{Catalogs: catalogs})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Stop()) }()
	tn := cluster.Tenant(t)
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	tn.Group(env.AccountName, w.targets(t, root, tn.Namespace)...)
	for image := range catalogs {
		tn.Catalog(strings.TrimPrefix(image, "catalogs.test/"), image)
	}
	walker := &walker{t: t, cluster: cluster, tn: tn, paths: paths, seen: map[string][]string{}}
	begun := time.Now()
	walker.walk(w.brought)
	walker.holds(w.heldBack)
	t.Logf("%s, round %d: %s in %s", w.name, number+1, walker, time.Since(begun).Round(time.Second))
}

func (w *walker) walk(brought map[string]string) {
	t := w.t
	t.Helper()
	subscriptions, err := w.cluster.Client.Watch(t.Context(), &operatorsv1alpha1.SubscriptionList{}, client.InNamespace(w.tn.Namespace))
	require.NoError(t, err)
	defer subscriptions.Stop()
	for pkg, p := range w.paths {
		w.tn.Subscribe(p.graph.name, pkg, p.channel, func(s *operatorsv1alpha1.SubscriptionSpec) {
			s.StartingCSV, s.InstallPlanApproval = p.start, operatorsv1alpha1.ApprovalManual
		})
	}
	timeout := time.NewTimer(stepPatience)
	for !w.arrived(brought) {
		select {
		case event, ok := <-subscriptions.ResultChan():
			require.True(t, ok)
			sub, isSub := event.Object.(*operatorsv1alpha1.Subscription)
			if !isSub {
				continue
			}
			storeAnew(t, w.cluster, sub)
			if note(w.seen, sub) {
				timeout.Reset(stepPatience)
			}
			if p := w.paths[sub.Spec.Package]; p != nil {
				w.advance(p, sub)
			}
		case <-timeout.C:
			t.Fatalf("no progress beyond %v for %s: %s", w.seen, stepPatience, stuck(t, w.cluster, w.tn.Namespace))
		}
	}
	for pkg, p := range w.paths {
		want := []string{p.start}
		for _, e := range p.edges {
			want = append(want, e.to)
		}
		require.Equal(t, want, w.seen[pkg])
	}
}

// holds waits until the Subscriptions report the expected reasons for not upgrading further.
func (w *walker) holds(heldBack map[string]string) {
	w.t.Helper()
	for pkg, want := range heldBack {
		w.tn.Eventually(func(c *assert.CollectT) {
			list := &operatorsv1alpha1.SubscriptionList{}
			assert.NoError(c, w.cluster.Client.List(w.t.Context(), list, client.InNamespace(w.tn.Namespace)))
			i := slices.IndexFunc(list.Items, func(s operatorsv1alpha1.Subscription) bool { return s.Spec.Package == pkg })
			if assert.GreaterOrEqual(c, i, 0, pkg) {
				assert.Equal(c, want, list.Items[i].Status.GetCondition(names.ConditionUpgradeHeldBack).Message)
			}
		})
	}
}

// advance switches a Subscription to the channel of the next edge and approves only the plan for that edge.
func (w *walker) advance(p *path, sub *operatorsv1alpha1.Subscription) {
	w.t.Helper()
	name, channel := p.next(sub.Status.InstalledCSV)
	if name == "" {
		return
	}
	if channel != sub.Spec.Channel {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"channel":%q}}`, channel))
		require.NoError(w.t, w.cluster.Client.Patch(w.t.Context(), sub, patch))
		return
	}
	if sub.Status.InstallPlanRef == nil {
		return
	}
	plan := &operatorsv1alpha1.InstallPlan{}
	err := w.tn.Get(sub.Status.InstallPlanRef.Name, plan)
	if err != nil || plan.Spec.Approved || !slices.Contains(plan.Spec.ClusterServiceVersionNames, name) {
		require.NoError(w.t, client.IgnoreNotFound(err))
		return
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"approved":true}}`))
	require.NoError(w.t, w.cluster.Client.Patch(w.t.Context(), plan, patch))
}

// arrived reports whether all packages and their dependencies have reached the ends of their paths.
func (w *walker) arrived(brought map[string]string) bool {
	ends := maps.Clone(brought)
	if ends == nil {
		ends = map[string]string{}
	}
	for pkg, p := range w.paths {
		ends[pkg] = p.end()
	}
	for pkg, end := range ends {
		if steps := w.seen[pkg]; len(steps) == 0 || steps[len(steps)-1] != end {
			return false
		}
	}
	return true
}

func (w *walker) String() string {
	var out []string
	for _, pkg := range slices.Sorted(maps.Keys(w.seen)) {
		out = append(out, fmt.Sprintf("%s: from %s, in %d steps, to %s", pkg, w.seen[pkg][0], len(w.seen[pkg])-1, w.seen[pkg][len(w.seen[pkg])-1]))
	}
	return strings.Join(out, ", ")
}

var storedVersion = regexp.MustCompile(`risk of data loss updating "([^"]+)": new CRD removes version (\S+) that`)

// storeAnew performs the storage migration that an administrator must do before a CRD can remove a stored version.
// There are no objects, so it only updates the CRD's status.
func storeAnew(t *testing.T, cluster *env.Cluster, sub *operatorsv1alpha1.Subscription) {
	t.Helper()
	for _, c := range sub.Status.Conditions {
		m := storedVersion.FindStringSubmatch(c.Message)
		if m == nil {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: m[1]}, crd))
		before := crd.DeepCopy()
		crd.Status.StoredVersions = slices.DeleteFunc(crd.Status.StoredVersions, func(v string) bool { return v == m[2] })
		for _, v := range crd.Spec.Versions {
			if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
				crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
			}
		}
		if !slices.Equal(before.Status.StoredVersions, crd.Status.StoredVersions) {
			require.NoError(t, cluster.Client.Status().Patch(t.Context(), crd, client.MergeFrom(before)))
		}
	}
}

// targets returns the operator's own namespace if all bundles support OwnNamespace, or nil for all namespaces.
func (w walk) targets(t *testing.T, root, namespace string) []string {
	t.Helper()
	for _, pkg := range w.all() {
		for _, p := range versions(t, root, pkg) {
			if p.unserved() == "" && !slices.Contains(allModes(p), operatorsv1alpha1.InstallModeTypeOwnNamespace) {
				return nil
			}
		}
	}
	return []string{namespace}
}

// note adds the Subscription's installed version to seen and reports whether the version has changed.
func note(seen map[string][]string, sub *operatorsv1alpha1.Subscription) bool {
	steps, installed := seen[sub.Spec.Package], sub.Status.InstalledCSV
	if installed == "" || len(steps) > 0 && steps[len(steps)-1] == installed {
		return false
	}
	seen[sub.Spec.Package] = append(steps, installed)
	return true
}

// stuck describes the Subscriptions, ClusterServiceVersions and InstallPlans in the namespace.
func stuck(t *testing.T, cluster *env.Cluster, namespace string) string {
	t.Helper()
	var out []string
	csvs, plans := &operatorsv1alpha1.ClusterServiceVersionList{}, &operatorsv1alpha1.InstallPlanList{}
	require.NoError(t, cluster.Client.List(t.Context(), csvs, client.InNamespace(namespace)))
	require.NoError(t, cluster.Client.List(t.Context(), plans, client.InNamespace(namespace)))
	subs := &operatorsv1alpha1.SubscriptionList{}
	require.NoError(t, cluster.Client.List(t.Context(), subs, client.InNamespace(namespace)))
	for _, sub := range subs.Items {
		out = append(out, fmt.Sprintf("%s %s: %+v", sub.Name, sub.Status.State, sub.Status.Conditions))
	}
	for _, c := range csvs.Items {
		out = append(out, fmt.Sprintf("%s %s: %s", c.Name, c.Status.Phase, c.Status.Message))
	}
	slices.SortFunc(plans.Items, func(a, b operatorsv1alpha1.InstallPlan) int { return cmp.Compare(a.Spec.Generation, b.Spec.Generation) })
	for _, p := range plans.Items {
		out = append(out, fmt.Sprintf("%v %s: %s", p.Spec.ClusterServiceVersionNames, p.Status.Phase, p.Status.Message))
	}
	return strings.Join(out, "\n")
}
