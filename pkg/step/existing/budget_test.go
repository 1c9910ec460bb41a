package existing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The API server has not seen the new schema, so that it has not refused what takes a long time to validate.
func TestCostlyObjectsAreNotValidated(t *testing.T) {
	t.Parallel()
	const open = "{type: object, x-kubernetes-preserve-unknown-fields: true}"
	list := func(item string, n int) string {
		return "{l: [" + strings.TrimSuffix(strings.Repeat(item+", ", n), ", ") + "]}"
	}
	numbers := "[" + strings.TrimSuffix(strings.Repeat("0, ", 1_000), ", ") + "]"
	items := func(schema string) string {
		return "{type: object, properties: {l: {type: array, items: " + schema + "}}}"
	}
	branches := func(n int, branch string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(branch, i))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	defaults := items("{type: object, properties: {d: {type: array, items: {type: integer}, default: " + numbers + "}}}")
	for name, row := range map[string]struct {
		next, object string
		costly       bool
	}{
		"a default in each item":             {defaults, list("{}", 5_000), true},
		"a default in few items":             {defaults, list("{}", 10), false},
		"alternatives of each item":          {items("{type: string, anyOf: " + branches(400, "{minLength: %d}") + "}"), list("aa", 4_000), true},
		"alternatives of a property of each": {items("{type: object, properties: {a: {type: string}}, anyOf: " + branches(400, "{properties: {a: {minLength: %d}}}") + "}"), list("{a: aa}", 4_000), true},
		"values of each item":                {items("{type: string, enum: " + branches(400, "v%d") + "}"), list("v1", 4_000), true},
		"an object with many entries":        {items("{type: object, properties: {" + strings.Trim(branches(60, "p%d: {type: string}"), "[]") + "}}"), list("{p1: x}", 20_000), false},
		"properties of each item":            {items("{type: object, properties: {" + strings.Trim(branches(2_000, "p%d: {type: string}"), "[]") + "}}"), list("{}", 5_000), true},
		"what a definition usually contains": {items("{type: object, properties: {a: {type: string, default: x}}}"), list("{}", 5_000), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := New(things(t, open), things(t, row.next), "v1")
			require.NoError(t, err)
			object := thing(t, row.object)
			require.Equal(t, row.costly, isCostly(object, c.after.structural))
			if row.costly {
				require.Equal(t, []Violation{{Kind: tooCostly}}, c.Violations(t.Context(), object))
				return
			}
			require.Empty(t, c.Violations(t.Context(), object))
		})
	}
}
