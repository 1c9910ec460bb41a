package catalog_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/test/alone"
)

// The size includes the memory of the index (pkg/resolver, TestASnapshotIsChargedForItsIndex), and is not much more in an ordinary
// catalog.
func TestSizeApproximatesTheMemoryOfASnapshot(t *testing.T) {
	if !alone.Is(t) {
		return
	}
	taken := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := taken()
	s := &catalog.Snapshot{Packages: map[string]*catalog.Package{}}
	for p := range 20 {
		pkg := &catalog.Package{Name: fmt.Sprint("package-", p), Channels: map[string]*catalog.Channel{}, Bundles: map[string]*catalog.Bundle{}}
		c := &catalog.Channel{Name: "stable", Entries: map[string]catalog.Entry{}}
		pkg.Channels["stable"] = c
		for v := range 500 {
			name := fmt.Sprintf("package-%d.v1.%d.0", p, v)
			c.Entries[name] = catalog.Entry{Name: name, Replaces: fmt.Sprintf("package-%d.v1.%d.0", p, v-1)}
			b := &catalog.Bundle{Name: name, Package: pkg.Name, Version: fmt.Sprintf("1.%d.0", v), Image: fmt.Sprintf("registry.example.com/team/bundle@sha256:%064d", v)}
			for i := range 5 {
				b.Properties = append(b.Properties, catalog.Property{Type: "olm.gvk", Value: fmt.Appendf(nil, `{"group":"example.com","kind":"Kind%d","version":"v%d"}`, i, v)})
			}
			pkg.Bundles[name] = b
		}
		s.Packages[pkg.Name] = pkg
	}
	got := taken() - before
	require.Greater(t, s.Size(), got)
	require.Less(t, s.Size(), 4*got)
	runtime.KeepAlive(s)
	require.Zero(t, (&catalog.Snapshot{}).Size())
}

func TestTheSizeOfASnapshotIncludesItsTexts(t *testing.T) {
	s := &catalog.Snapshot{Excluded: []string{"excluded"}, Warnings: []string{"warning"}}
	require.EqualValues(t, len("excludedwarning")+2*catalog.PropertyOverhead, s.Size())
}
