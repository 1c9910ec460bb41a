package resolver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// catalogsOf returns 5 catalogs with 7,000 bundles in total. Each catalog has 70 packages with 20 versions in two
// channels. All but the last ten packages of a catalog require two other packages, one of them through a kind that it
// owns. If clash is true, the newest version of a requested package requires something that no catalog provides, so
// that the solver runs.
func catalogsOf(clash bool) []*catalog.Snapshot {
	var out []*catalog.Snapshot
	for c := range 5 {
		var lines []string
		for p := range 70 {
			for v := range 20 {
				line := fmt.Sprintf("c%dp%02d.v1.%d.0 stable,fast owns=C%dK%d", c, p, v, c, p)
				if v > 0 {
					line += fmt.Sprintf(" replaces=c%dp%02d.v1.%d.0", c, p, v-1)
				}
				if p < 60 {
					line += fmt.Sprintf(" needs=c%dp%02d:>=1.%d.0 api=C%dK%d", c, p+5, v/2, (c+1)%5, p+10)
				}
				if clash && c == 0 && p == 40 && v == 19 {
					line += " needs=missing:>=1.0.0"
				}
				lines = append(lines, line)
			}
		}
		out = append(out, graph(fmt.Sprintf("ns/c%d", c), lines...))
	}
	return out
}

func tenSubscriptions(installed bool) Namespace {
	var texts []string
	for i := range 10 {
		text := fmt.Sprintf("s%d ns/c%d/c%dp%02d/stable", i, i%5, i%5, 40+2*i)
		if installed {
			text += fmt.Sprintf(" installed=c%dp%02d.v1.10.0", i%5, 40+2*i)
		}
		texts = append(texts, text)
	}
	return subjects(texts...)
}

func BenchmarkResolve(b *testing.B) {
	catalogs := catalogsOf(false)
	bundles := 0
	for _, s := range catalogs {
		for _, p := range s.Packages {
			bundles += len(p.Bundles)
		}
	}
	require.Equal(b, 7_000, bundles)
	for name, ns := range map[string]Namespace{"10-new": tenSubscriptions(false), "10-upgrades": tenSubscriptions(true)} {
		b.Run(name+"/warm", func(b *testing.B) {
			in := world(catalogs...)
			got := in.resolve(ns)
			require.Empty(b, got.Problems)
			changes := 0
			for _, set := range got.Sets {
				changes += len(set)
			}
			b.ReportAllocs()
			for b.Loop() {
				in.resolve(ns)
			}
			b.ReportMetric(float64(changes), "changes")
		})
	}
	b.Run("10-new/with-a-clash", func(b *testing.B) {
		in := world(catalogsOf(true)...)
		require.Empty(b, in.resolve(tenSubscriptions(false)).Problems)
		b.ReportAllocs()
		for b.Loop() {
			in.resolve(tenSubscriptions(false))
		}
	})
	b.Run("10-upgrades/one-held-back", func(b *testing.B) {
		in := world(catalogsOf(true)...)
		ns := tenSubscriptions(true)
		ns.Subjects[0].Installed.Name = "c0p40.v1.18.0" // the next version is the one with the unmet requirement
		require.Len(b, in.resolve(ns).HeldBack, 1)
		b.ReportAllocs()
		for b.Loop() {
			in.resolve(ns)
		}
	})
	b.Run("10-new/cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			world(catalogs...).resolve(tenSubscriptions(false))
		}
	})
}
