package resolver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/step/build"
)

// expensive has bundles whose objects take fifty times as much memory as their text. Each object has a cost of about 13 MiB.
type expensive struct {
	objects int
	read    *int
}

func (e expensive) Content(_ context.Context, _, _, name string) (*catalog.Content, error) {
	*e.read++
	out := &catalog.Content{Manifests: [][]byte{[]byte(csvText(name))}}
	list := strings.TrimSuffix(strings.Repeat("{},", 50_000), ",")
	for i := range e.objects {
		out.Manifests = append(out.Manifests, fmt.Appendf(nil, `{"apiVersion":"monitoring.coreos.com/v1","kind":"PrometheusRule","metadata":{"name":"%s-%d"},"spec":{"groups":[%s]}}`, name, i, list))
	}
	return out, nil
}

// costlyInput returns n choices of bundles with the given number of objects.
func costlyInput(n, objects int) (in Input, set []Choice, read *int) {
	in, read = input(), new(int)
	snap := &catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "cat"}, Packages: map[string]*catalog.Package{}, Reader: expensive{objects, read}}
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		version := name + ".v1"
		snap.Packages[name] = &catalog.Package{
			Name: name, DefaultChannel: "stable", Bundles: map[string]*catalog.Bundle{version: {Name: version, Package: name}},
			Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: map[string]catalog.Entry{version: {Name: version}}}},
		}
		set = append(set, Choice{
			Subscription: &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: &operatorsv1alpha1.SubscriptionSpec{}},
			Catalog:      snap.Key, Package: name, Channel: "stable", Bundle: version,
		})
	}
	store := &catalog.Store{}
	store.Put(snap)
	in.Catalogs = store
	return in, set, read
}

// The sizes of bundles are limited one by one, but a plan contains many of them, and they are held in memory together.
func TestTheObjectsOfAPlanHaveACommonLimit(t *testing.T) {
	for _, row := range []struct {
		bundles, objects int
		want             string
	}{
		{1, 3, ""},
		{2, 2, ""},
		{1, 4, `bundle "p0.v1": manifest 5 (PrometheusRule "p0.v1-3"): the objects of the bundle would need about 51 MiB of memory or more; at most 48 are allowed`},
		{3, 2, `bundle "p2.v1", with the other bundles that are installed with it: manifest`},
	} {
		t.Run(fmt.Sprintf("%d of %d", row.bundles, row.objects), func(t *testing.T) {
			in, set, _ := costlyInput(row.bundles, row.objects)
			plan, steps, _, err := ResolveSteps(t.Context(), in, set)
			if row.want == "" {
				require.NoError(t, err)
				require.NotEmpty(t, steps)
				in.MaxCost = OrdinaryCost
				_, _, err = StepsOf(t.Context(), in, plan)
				require.True(t, IsCostly(err), "%v", err)
				return
			}
			require.True(t, IsCostly(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
}

// A namespace whose registry does not answer takes the place again and again. Others wait for one such turn.
func TestNamespacesTakeTurnsResolvingCostlyPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, _, err := costly.Join(t.Context(), "hostile")
		require.NoError(t, err)
		in, set, _ := costlyInput(1, 1)
		_, _, _, err = ResolveSteps(t.Context(), in, set)
		require.NoError(t, err, "an ordinary plan does not wait")

		in, set, _ = costlyInput(1, 2)
		began := time.Now()
		_, _, _, err = ResolveSteps(t.Context(), in, set)
		require.Equal(t, costlyWait, time.Since(began))
		var retried *ReadError
		require.ErrorAs(t, err, &retried)
		require.EqualError(t, err, `bundle content: bundle "p0.v1" of catalogsource ns/cat: other bundles that take much memory are being resolved; this will be retried`)

		for range 5 {
			go func() {
				if again, _, err := costly.Join(t.Context(), "hostile"); err == nil {
					time.Sleep(ReadTime)
					again.Leave()
				}
			}()
		}
		synctest.Wait()
		time.AfterFunc(ReadTime, turn.Leave)
		began = time.Now()
		_, _, _, err = ResolveSteps(t.Context(), in, set)
		require.NoError(t, err)
		require.Equal(t, ReadTime, time.Since(began))
		time.Sleep(time.Hour)
		synctest.Wait()
		free, _, err := costly.Join(t.Context(), "other")
		require.NoError(t, err, "it has been released")
		free.Leave()
	})
}

// A bundle can have 12 MiB of text, and a plan as many bundles as its namespace has Subscriptions.
func TestNoMoreContentIsReadThanCanBeKept(t *testing.T) {
	in, set, read := costlyInput(9, 1)
	in.Catalogs.(*catalog.Store).Put(&catalog.Snapshot{Key: set[0].Catalog, Packages: map[string]*catalog.Package{}, Reader: largeTexts{read}})
	plan := Plan{Namespace: "ns"}
	for _, c := range set {
		pin, _, err := in.pin(t.Context(), c)
		require.NoError(t, err)
		plan.Pins = append(plan.Pins, pin)
	}
	*read = 0
	text, err := in.Keep(t.Context(), plan, 1<<20)
	require.NoError(t, err)
	require.Empty(t, text)
	require.Equal(t, 4, *read)
}

// largeTexts has bundles of 4 MiB.
type largeTexts struct{ read *int }

func (l largeTexts) Content(context.Context, string, string, string) (*catalog.Content, error) {
	*l.read++
	return &catalog.Content{Manifests: [][]byte{make([]byte, bundle.MaxManifestText)}}, nil
}

// The roles of an operator are rendered for each target namespace.
func TestRolesOfAPlanCountAsMemory(t *testing.T) {
	in, set, _ := costlyInput(1, 1)
	var rules []string
	for i := range 2000 {
		rules = append(rules, fmt.Sprintf(`{"apiGroups":[""],"resources":["r%d"],"verbs":["get"]}`, i))
	}
	in.Catalogs.(*catalog.Store).Put(&catalog.Snapshot{Key: set[0].Catalog, Packages: map[string]*catalog.Package{}, Reader: asking("[" + strings.Join(rules, ",") + "]")})
	for targets, want := range map[int]bool{1: false, 40: true} {
		in.Targets = nil
		for i := range targets {
			in.Targets = append(in.Targets, fmt.Sprint("t", i))
		}
		plan, steps, _, err := ResolveSteps(t.Context(), in, set)
		require.NoError(t, err)
		require.Greater(t, len(steps), targets)
		limited := in
		limited.MaxCost = OrdinaryCost
		_, _, err = StepsOf(t.Context(), limited, plan)
		require.Equal(t, want, IsCostly(err), "%v", err)
		if want {
			require.ErrorContains(t, err, "with the roles for its permissions in all target namespaces: the objects of the bundle would need about")
		}
	}
	b, err := bundle.ParseContent(t.Context(), must(asking("["+strings.Join(rules, ",")+"]").Content(t.Context(), "", "", set[0].Bundle)))
	require.NoError(t, err)
	left := b.Cost + build.CostOfRoles(b.CSV, "ns", in.Targets)
	before := left
	_, err = in.steps(t.Context(), Pin{Bundle: set[0].Bundle}, must(asking("["+strings.Join(rules, ",")+"]").Content(t.Context(), "", "", set[0].Bundle)), &left)
	require.NoError(t, err)
	require.Zero(t, left, "of %d", before)
}

// asking is the reader of bundles with these rules.
type asking string

func (a asking) Content(_ context.Context, _, _, name string) (*catalog.Content, error) {
	return &catalog.Content{Manifests: [][]byte{[]byte(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"` + name + `"},"spec":{"install":{"strategy":"deployment",
		"spec":{"deployments":[{"name":"op"}],"permissions":[{"serviceAccountName":"op","rules":` + string(a) + `}]}}}}`)}}, nil
}

func must(content *catalog.Content, _ error) *catalog.Content { return content }

// A bundle that is refused is parsed again if its plan gets more room, and then counts only once.
func TestARefusedBundleDoesNotCount(t *testing.T) {
	var rules []string
	for i := range 2000 {
		rules = append(rules, fmt.Sprintf(`{"apiGroups":[""],"resources":["r%d"],"verbs":["get"]}`, i))
	}
	in, set, _ := costlyInput(1, 1)
	for i := range 40 {
		in.Targets = append(in.Targets, fmt.Sprint("t", i))
	}
	content := must(asking("["+strings.Join(rules, ",")+"]").Content(t.Context(), "", "", set[0].Bundle))
	b, err := bundle.ParseContent(t.Context(), content)
	require.NoError(t, err)
	left := b.Cost + build.CostOfRoles(b.CSV, "ns", in.Targets) - 1
	before := left
	_, err = in.steps(t.Context(), Pin{Bundle: set[0].Bundle}, content, &left)
	require.True(t, IsCostly(err), "%v", err)
	require.Equal(t, before, left)
}
