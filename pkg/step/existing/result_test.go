package existing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const head = `error validating existing CRs against new CRD's schema for "things.example.com": updated validation is too restrictive: `

func TestAResultTellsOnlyOfWhatMayBeTold(t *testing.T) {
	own := func(namespace string) bool { return namespace == "own" }
	long := strings.Repeat("x", 2*MaxField)
	broken := []Violation{{Field: "spec.a", Kind: "Required value"}}
	object := func(namespace string, n int) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{}}
		out.SetNamespace(namespace)
		out.SetName(fmt.Sprintf("thing-%d", n))
		return out
	}
	for _, row := range []struct {
		name          string
		mine, foreign int
		unread        bool
		violations    []Violation
		want          string
	}{
		{"none", 0, 0, true, broken, ""},
		{"mine", 1, 0, false, broken, "1 object(s) would be invalid in version v1: own/thing-0 (spec.a: Required value)"},
		{"others'", 0, 2, false, broken, "2 object(s) would be invalid in version v1: 2 outside of the namespaces that the OperatorGroup selects and its account may read"},
		{"both", 1, 1, true, broken, "at least 2 object(s) would be invalid in version v1: own/thing-0 (spec.a: Required value), " +
			"1 outside of the namespaces that the OperatorGroup selects and its account may read"},
		{"many", 7, 0, false, broken, "7 object(s) would be invalid in version v1: own/thing-0 (spec.a: Required value), own/thing-1 (spec.a: Required value), " +
			"own/thing-2 (spec.a: Required value), own/thing-3 (spec.a: Required value), own/thing-4 (spec.a: Required value), 2 more"},
		{"many fields", 1, 0, false, []Violation{{Field: "a", Kind: "K"}, {Field: "b", Kind: "K"}, {Field: "c", Kind: "K"}, {Field: "d", Kind: "K"}},
			"1 object(s) would be invalid in version v1: own/thing-0 (a: K; b: K; c: K; and 1 more)"},
		{"a long field, and none", 1, 0, false, []Violation{{Field: long, Kind: "K"}, {Kind: "L"}},
			"1 object(s) would be invalid in version v1: own/thing-0 (" + long[:MaxField] + "…: K; L)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := &Result{CRD: "things.example.com", Version: "v1", Unread: row.unread}
			r.add(object("own", -1), nil, own)
			for n := range row.foreign {
				r.add(object("foreign", n), row.violations, own)
			}
			for n := range row.mine {
				r.add(object("own", n), row.violations, own)
			}
			if row.want == "" {
				require.NoError(t, r.Err())
				return
			}
			require.EqualError(t, r.Err(), head+row.want)
			require.NotContains(t, r.Err().Error(), "foreign")
		})
	}
}

func TestAnObjectOfTheWholeClusterHasNoNamespace(t *testing.T) {
	require.Equal(t, "a (K)", Object{Name: "a", Violations: []Violation{{Kind: "K"}}}.String())
}
