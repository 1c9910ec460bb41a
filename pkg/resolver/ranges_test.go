package resolver

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// A parsed range takes 60 times the memory of its text: 80 bundles with 100 ranges of 4 KiB each took 1.7 GB.
func TestParsedRangesAreNotKept(t *testing.T) {
	b := &catalog.Bundle{Name: "op.v1", Package: "op", Version: "1.0.0"}
	for i := range 100 {
		value, err := json.Marshal(map[string]string{"packageName": fmt.Sprint("p", i), "versionRange": strings.TrimSpace(strings.Repeat("1.x ", 1000))})
		require.NoError(t, err)
		b.Properties = append(b.Properties, catalog.Property{Type: property.TypePackageRequired, Value: value})
	}
	f := factsOf(b)
	f.shared = true
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	m := newMeter(t.Context(), input(), Full())
	needs, err := f.requirements(m)
	require.NoError(t, err)
	require.Len(t, needs, 100)
	require.Less(t, heap(), before+4<<20)
	require.Nil(t, f.needs, "nor is so much text, longer than for this resolution")
	require.True(t, needs[1].match(newMeter(t.Context(), input(), Full()), newFacts("p1.v1", "p1", "1.2.3")))
	require.False(t, needs[1].match(newMeter(t.Context(), input(), Full()), newFacts("p1.v2", "p1", "2.0.0")))
	runtime.KeepAlive(f)
}

// The text of a list of 3.6 MB took more than half a minute.
func TestOnlyScalarsAreVersions(t *testing.T) {
	for _, v := range []ref.Val{types.NewStringList(types.DefaultTypeAdapter, []string{"1.0.0"}), types.NullValue, types.True} {
		require.True(t, types.IsError(compareVersions(v, types.String("1.0.0"))), "%v", v)
	}
	for _, v := range []ref.Val{types.String("1.0.0"), types.Int(1), types.Double(1.5)} {
		require.False(t, types.IsError(compareVersions(v, types.String("1.0.0"))), "%v", v)
	}
}
