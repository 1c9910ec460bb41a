package resolver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/operator-framework/api/pkg/constraints"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// separate returns an olm.constraint that becomes n requirements.
func separate(t *testing.T, n int, failure string) catalog.Property {
	t.Helper()
	var members []any
	for i := range n {
		members = append(members, map[string]any{"package": map[string]any{"packageName": fmt.Sprint("p", i), "versionRange": ">1.0.0"}})
	}
	value, err := json.Marshal(map[string]any{"failureMessage": failure, "all": map[string]any{"constraints": members}})
	require.NoError(t, err)
	return catalog.Property{Type: property.TypeConstraint, Value: value}
}

// A value of 128 KB becomes up to a thousand requirements, which must not contain it a thousand times.
func TestRequirementsShareTheValueOfTheirProperty(t *testing.T) {
	t.Parallel()
	p := separate(t, MaxRequirements, strings.Repeat("a ", 1_000))
	all, err := requirementsOf(newMeter(t.Context(), Input{Indexes: &Indexes{}}, Light()), []catalog.Property{p})
	require.NoError(t, err)
	require.Len(t, all, MaxRequirements)
	keys := map[string]bool{}
	for _, r := range all {
		require.Less(t, len(r.key), 50)
		require.Same(t, unsafe.StringData(all[0].message), unsafe.StringData(r.message))
		keys[r.key] = true
	}
	require.Len(t, keys, MaxRequirements)

	other := p
	other.Value = append(json.RawMessage(" "), p.Value...)
	more, err := requirementsOf(newMeter(t.Context(), Input{Indexes: &Indexes{}}, Light()), []catalog.Property{other})
	require.NoError(t, err)
	require.False(t, keys[more[0].key], "the key depends on the value")
}

func TestTooManyRequirementsAreNotBuilt(t *testing.T) {
	m := newMeter(t.Context(), Input{Indexes: &Indexes{}}, Light())
	p := separate(t, 2*MaxRequirements, "")
	built := testing.AllocsPerRun(1, func() {
		_, err := requirementsOf(m, []catalog.Property{p})
		require.ErrorContains(t, err, "the bundle has more than 1000 requirements")
	})
	parsed := testing.AllocsPerRun(1, func() {
		_, err := constraints.Parse(p.Value)
		require.NoError(t, err)
	})
	require.Less(t, built, 2*parsed)
}
