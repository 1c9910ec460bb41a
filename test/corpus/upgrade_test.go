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

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

// walk is a way through the upgrades of real operators in one namespace.
type walk struct {
	name string
	// follow are packages with the channels that they follow, one after the other, each to its head. with are
	// others that the catalog has.
	follow map[string][]string
	with   []string
	// sample says that it is walked where not all are asked for.
	sample bool
	// reach are versions, by package, that must be there in the end, heads aside.
	reach map[string]string
}

var walks = []walk{
	{name: "cockroachdb", follow: map[string][]string{"cockroachdb": {"stable-5.x"}}, sample: true},
	{name: "prometheus", follow: map[string][]string{"prometheus": {"beta"}}},
	{name: "rabbitmq", follow: map[string][]string{"rabbitmq-cluster-operator": {"stable"}}},
	{name: "kuadrant-parts", follow: map[string][]string{
		"authorino-operator": {"alpha", "stable"}, "limitador-operator": {"alpha", "stable"}, "dns-operator": {"stable"},
	}},
	// It needs one version of each, beyond which they are not upgraded.
	{name: "kuadrant", follow: map[string][]string{"kuadrant-operator": {"stable"}}, with: []string{"authorino-operator", "limitador-operator", "dns-operator"},
		reach: map[string]string{
			"authorino-operator": "authorino-operator.v0.13.0", "limitador-operator": "limitador-operator.v0.11.0", "dns-operator": "dns-operator.v0.6.0",
		}},
}

func (w walk) packages() []string {
	return append(slices.Sorted(maps.Keys(w.follow)), w.with...)
}

// stepPatience is how long a walk may take for one step.
const stepPatience = 100 * time.Second

// TestRealOperatorsAreUpgradedStepByStep walks upgrades as a user would see them. Each step is one that the graph
// has, and in the end only the heads are left.
func TestRealOperatorsAreUpgradedStepByStep(t *testing.T) {
	root := corpusDir(t)
	pick := os.Getenv("CORPUS_WALK")
	for _, w := range walks {
		if pick != "" && pick != w.name || pick == "" && os.Getenv("CORPUS") != "all" && !w.sample {
			continue
		}
		t.Run(w.name, func(t *testing.T) { w.run(t, root) })
	}
}

// installable are the versions of a package that a cluster of today can have, the oldest first.
func installable(t *testing.T, root, pkg string) []*published {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, pkg, "*"))
	require.NoError(t, err)
	var out []*published
	for _, dir := range dirs {
		if p := read(t, dir); p.unserved() == "" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *published) int {
		return semver.MustParse(a.CSV.Spec.Version.String()).Compare(semver.MustParse(b.CSV.Spec.Version.String()))
	})
	return out
}

func (w walk) run(t *testing.T, root string) {
	dir := t.TempDir()
	for _, pkg := range w.packages() {
		for _, p := range installable(t, root, pkg) {
			require.NoError(t, os.CopyFS(filepath.Join(dir, pkg, filepath.Base(p.dir)), os.DirFS(p.dir)))
		}
	}
	snapshot, err := fbc.LoadDirectory(t.Context(), os.DirFS(dir))
	require.NoError(t, err)
	cluster, err := env.Start(context.Background(), env.Options{Catalogs: map[string]string{"catalogs.test/walk": dir}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })

	tn := cluster.Tenant(t)
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	tn.Group(env.AccountName, w.targets(t, root, tn.Namespace)...)
	tn.Catalog("catalog", "catalogs.test/walk")
	watching, err := cluster.Client.Watch(t.Context(), &operatorsv1alpha1.SubscriptionList{}, client.InNamespace(tn.Namespace))
	require.NoError(t, err)
	defer watching.Stop()
	begun := time.Now()
	for pkg, channels := range w.follow {
		tn.Subscribe("catalog", pkg, channels[0], func(s *operatorsv1alpha1.SubscriptionSpec) {
			s.StartingCSV = oldest(t, snapshot.Packages[pkg], channels[0])
		})
	}
	seen := map[string][]string{}
	timeout := time.NewTimer(stepPatience)
	for !w.arrived(t, snapshot, seen) {
		select {
		case event, ok := <-watching.ResultChan():
			require.True(t, ok)
			sub, isSub := event.Object.(*operatorsv1alpha1.Subscription)
			if !isSub {
				continue
			}
			storeAnew(t, cluster, sub)
			if note(seen, sub) {
				timeout.Reset(stepPatience)
				w.switchChannel(t, cluster, snapshot.Packages[sub.Spec.Package], sub)
			}
		case <-timeout.C:
			t.Fatalf("walked %v, and not on for %s: %s", seen, stepPatience, stuck(t, cluster, tn.Namespace))
		}
	}
	for pkg := range w.follow {
		isWalk(t, snapshot.Packages[pkg], seen[pkg])
	}
	t.Logf("%s: %s in %s", w.name, path(seen), time.Since(begun).Round(time.Second))
}

var storedVersion = regexp.MustCompile(`risk of data loss updating "([^"]+)": new CRD removes version (\S+) that`)

// storeAnew does what an administrator is asked to do where a version drops one that objects may be stored in: there
// are none, so that only the record of it goes.
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

// oldest is the end of a channel's chain.
func oldest(t *testing.T, p *catalog.Package, channel string) string {
	t.Helper()
	e, err := p.Channels[channel].Head()
	require.NoError(t, err)
	for {
		older, ok := p.Channels[channel].Entries[e.Replaces]
		if !ok {
			return e.Name
		}
		e = older
	}
}

// switchChannel lets a Subscription that is at its channel's head follow the next one.
func (w walk) switchChannel(t *testing.T, cluster *env.Cluster, p *catalog.Package, sub *operatorsv1alpha1.Subscription) {
	t.Helper()
	head, err := p.Channels[sub.Spec.Channel].Head()
	require.NoError(t, err)
	channels := w.follow[p.Name]
	next := slices.Index(channels, sub.Spec.Channel) + 1
	if head.Name != sub.Status.InstalledCSV || next == 0 || next == len(channels) {
		return
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"channel":%q}}`, channels[next]))
	require.NoError(t, cluster.Client.Patch(t.Context(), sub, patch))
}

// targets are the operator's own namespace where all of the bundles support that, else all namespaces.
func (w walk) targets(t *testing.T, root, namespace string) []string {
	t.Helper()
	for _, pkg := range w.packages() {
		for _, p := range installable(t, root, pkg) {
			if !slices.Contains(allModes(p), operatorsv1alpha1.InstallModeTypeOwnNamespace) {
				return nil
			}
		}
	}
	return []string{namespace}
}

// note says whether a Subscription has come a step further.
func note(seen map[string][]string, sub *operatorsv1alpha1.Subscription) bool {
	steps, installed := seen[sub.Spec.Package], sub.Status.InstalledCSV
	if installed == "" || len(steps) > 0 && steps[len(steps)-1] == installed {
		return false
	}
	seen[sub.Spec.Package] = append(steps, installed)
	return true
}

func (w walk) arrived(t *testing.T, s *catalog.Snapshot, seen map[string][]string) bool {
	t.Helper()
	ends := maps.Clone(w.reach)
	if ends == nil {
		ends = map[string]string{}
	}
	for pkg, channels := range w.follow {
		head, err := s.Packages[pkg].Channels[channels[len(channels)-1]].Head()
		require.NoError(t, err)
		ends[pkg] = head.Name
	}
	for pkg, end := range ends {
		if steps := seen[pkg]; len(steps) == 0 || steps[len(steps)-1] != end {
			return false
		}
	}
	return true
}

// isWalk says that each step is an edge of the graph.
func isWalk(t *testing.T, p *catalog.Package, steps []string) {
	t.Helper()
	for i := 1; i < len(steps); i++ {
		edge := false
		for _, c := range p.Channels {
			e := c.Entries[steps[i]]
			edge = edge || e.Replaces == steps[i-1] || slices.Contains(e.Skips, steps[i-1]) ||
				e.SkipRange != "" && semver.MustParseRange(e.SkipRange)(semver.MustParse(p.Bundles[steps[i-1]].Version))
		}
		require.True(t, edge, "%s -> %s", steps[i-1], steps[i])
	}
}

func path(seen map[string][]string) string {
	var out []string
	for _, pkg := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, fmt.Sprintf("%s %d steps to %s", pkg, len(seen[pkg])-1, seen[pkg][len(seen[pkg])-1]))
	}
	return strings.Join(out, ", ")
}

// stuck is what the namespace says of itself.
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
