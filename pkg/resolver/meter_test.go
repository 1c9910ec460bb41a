package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// resolve calls Resolve with the Full limits, and panics if it returns an error.
func (in Input) resolve(ns Namespace) Answer {
	answer, err := in.Resolve(context.Background(), Full(), ns)
	if err != nil {
		panic(err)
	}
	return answer
}

// pigeonholes returns n+1 packages and Subscriptions to all of them. Each version of a package owns one of n kinds. A
// kind can have only one owner, so the Subscriptions cannot all be satisfied.
func pigeonholes(n int) (*catalog.Snapshot, Namespace) {
	var lines, asked []string
	for pigeon := range n + 1 {
		name := fmt.Sprintf("p%02d", pigeon)
		for hole := range n {
			line := fmt.Sprintf("%s.v1.%d.0 stable owns=H%d", name, hole, hole)
			if hole > 0 {
				line += fmt.Sprintf(" replaces=%s.v1.%d.0", name, hole-1)
			}
			lines = append(lines, line)
		}
		asked = append(asked, fmt.Sprintf("s%02d ns/cat/%s/stable", pigeon, name))
	}
	return graph("ns/cat", lines...), subjects(asked...)
}

func TestStopsAtItsLimits(t *testing.T) {
	s, ns := pigeonholes(14)
	light := Light()
	light.Time = time.Hour // the machine may be slow, and the race detector is always slow
	for _, limits := range []Limits{light, {Cost: 1_000, Time: time.Hour}} {
		for range 2 {
			answer, err := world(s).Resolve(t.Context(), limits, ns)
			var exceeded *LimitError
			require.ErrorAs(t, err, &exceeded)
			require.False(t, exceeded.Late)
			require.Contains(t, err.Error(), fmt.Sprintf("resolution of namespace ns was stopped after %d steps", limits.Cost))
			require.Empty(t, answer.Sets)
			require.Empty(t, answer.Problems)
		}
	}
	_, err := world(s).Resolve(t.Context(), light, ns)
	require.ErrorContains(t, err, "most of the work was for package p00 of catalogsource ns/cat, package p01 of catalogsource ns/cat and package p02")
	_, err = world(s).Resolve(t.Context(), Limits{Cost: 1 << 60, Time: 50 * time.Millisecond}, ns)
	var exceeded *LimitError
	require.ErrorAs(t, err, &exceeded)
	require.True(t, exceeded.Late)
}

func TestStopsWithItsContext(t *testing.T) {
	s, ns := pigeonholes(14)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := world(s).Resolve(ctx, Limits{Cost: 1 << 60, Time: time.Hour}, ns)
	require.ErrorIs(t, err, context.Canceled)
	var exceeded *LimitError
	require.False(t, errors.As(err, &exceeded), "the limits were not exceeded")
}

// withRules returns a catalog with the given number of bundles, and with a package whose only version has CEL rules
// that are evaluated for each of these bundles.
func withRules(bundles, rules int, rule func(i int) string) (*catalog.Snapshot, Namespace) {
	lines := make([]string, 0, bundles)
	for i := range bundles {
		lines = append(lines, fmt.Sprintf("other%04d.v1.0.0 stable owns=K%d", i, i))
	}
	s := graph("ns/cat", append(lines, "asks.v1.0.0 stable")...)
	b := s.Packages["asks"].Bundles["asks.v1.0.0"]
	for i := range rules {
		value, err := json.Marshal(map[string]any{"cel": map[string]any{"rule": rule(i)}})
		if err != nil {
			panic(err)
		}
		b.Properties = append(b.Properties, catalog.Property{Type: "olm.constraint", Value: value})
	}
	return s, subjects("s ns/cat/asks/stable")
}

func TestCELRulesShareTheBudgetOfTheirNamespace(t *testing.T) {
	cheap := func(i int) string { return fmt.Sprintf("properties.exists(p, p.type == 'x%d')", i) }
	for _, row := range []struct {
		name           string
		bundles, rules int
		rule           func(i int) string
		stopped        bool
	}{
		{"a few rules", 100, 5, cheap, false},
		{"1,000 rules over 7,000 bundles", 7_000, 1_000, cheap, true},
		{"1,000 long rules", 10, 1_000, func(i int) string { return strings.Repeat("true || ", 250) + fmt.Sprint(i, " == 0") }, true},
		{"a rule that loops", 1_000, 1, func(int) string {
			list := "[" + strings.Repeat("1, ", 99) + "1]"
			return fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, a + b + c > 0)))", list)
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, ns := withRules(row.bundles, row.rules, row.rule)
			_, err := world(s).Resolve(t.Context(), Light(), ns)
			if !row.stopped {
				require.NoError(t, err)
				return
			}
			var exceeded *LimitError
			require.ErrorAs(t, err, &exceeded)
			require.ErrorContains(t, err, "most of the work was for package asks of catalogsource ns/cat")
		})
	}
}

// Cache hits save time but not cost: otherwise the result of a resolution would depend on the order of resolutions.
func TestCostIsDeterministic(t *testing.T) {
	spent := func(in Input, ns Namespace) int {
		d := &decision{in: in, answer: newAnswer(), meter: newMeter(t.Context(), in, Full()), subjects: ns.Subjects}
		d.openCatalogs()
		d.findRoots()
		d.solve()
		require.NoError(t, d.meter.finish())
		return d.meter.spent
	}
	catalogs := catalogsOf(true)
	s, ruling := withRules(100, 10, func(i int) string { return fmt.Sprintf("properties.exists(p, p.type == 'x%d')", i%2) })
	for name, row := range map[string]struct {
		in func() Input
		ns Namespace
	}{
		"catalogs with a clash": {func() Input { return world(catalogs...) }, tenSubscriptions(false)},
		"CEL rules":             {func() Input { return world(s) }, ruling},
	} {
		t.Run(name, func(t *testing.T) {
			in := row.in()
			costs := []int{spent(in, row.ns), spent(in, row.ns), spent(row.in(), row.ns)}
			require.Len(t, slices.Compact(costs), 1, "%v", costs)
			require.Less(t, 4*costs[0], Light().Cost, "an ordinary resolution is far below the limits")
		})
	}
}

func TestDoesNotCacheTooManyRequirements(t *testing.T) {
	s, ns := withRules(1, maxKept+1, func(i int) string { return fmt.Sprintf("properties.exists(p, p.type == 'x%d')", i) })
	in := world(s)
	in.resolve(ns)
	require.Nil(t, in.Indexes.get(newMeter(t.Context(), in, Full()), s).bundles["asks"]["asks.v1.0.0"].needs)
}
