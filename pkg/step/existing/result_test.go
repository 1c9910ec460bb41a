package existing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

const head = `error validating existing CRs against new CRD's schema for "things.example.com": updated validation is too restrictive: `

func TestAResultNamesOnlyPermittedObjects(t *testing.T) {
	own := func(namespace string) bool { return namespace == "own" }
	long := strings.Repeat("x", 2*MaxField)
	broken := []violation{{field: "spec.a", kind: "Required value"}}
	object := func(namespace string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("thing-%d", n)}
	}
	for _, row := range []struct {
		name          string
		mine, foreign int
		unread        bool
		violations    []violation
		want          string
	}{
		{"none", 0, 0, true, broken, ""},
		{"own", 1, 0, false, broken, "1 object(s) would be invalid in version v1: own/thing-0 (spec.a: Required value)"},
		{"others'", 0, 2, false, broken, "2 object(s) would be invalid in version v1: 2 in namespaces that the OperatorGroup does not select or its account is not allowed to read"},
		{"both", 1, 1, true, broken, "at least 2 object(s) would be invalid in version v1: own/thing-0 (spec.a: Required value), " +
			"1 in namespaces that the OperatorGroup does not select or its account is not allowed to read"},
		{"many", 7, 0, false, broken, "7 object(s) would be invalid in version v1: own/thing-0 (spec.a: Required value), own/thing-1 (spec.a: Required value), " +
			"own/thing-2 (spec.a: Required value), own/thing-3 (spec.a: Required value), own/thing-4 (spec.a: Required value), 2 more"},
		{"many fields", 1, 0, false, []violation{{field: "a", kind: "K"}, {field: "b", kind: "K"}, {field: "c", kind: "K"}, {field: "d", kind: "K"}},
			"1 object(s) would be invalid in version v1: own/thing-0 (a: K; b: K; c: K; and 1 more)"},
		{"a long field, and a violation without a field", 1, 0, false, []violation{{field: long, kind: "K"}, {kind: "L"}},
			"1 object(s) would be invalid in version v1: own/thing-0 (" + long[:MaxField] + "…: K; L)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := &Result{CRD: "things.example.com", Version: "v1"}
			if row.unread {
				r.leave("not all")
			}
			r.add(object("own", -1), verdict{})
			for n := range row.foreign {
				r.add(object("foreign", n), verdictOf(row.violations))
			}
			for n := range row.mine {
				r.add(object("own", n), verdictOf(row.violations))
			}
			if row.want == "" {
				require.False(t, r.Refuses())
				require.NoError(t, r.Err(own))
				return
			}
			require.True(t, r.Refuses())
			require.EqualError(t, r.Err(own), head+row.want)
			require.NotContains(t, r.Err(own).Error(), "foreign")
		})
	}
}

// A stored Result is filtered again when the reader is allowed to see more.
func TestAStoredResultIsFilteredOnEachCall(t *testing.T) {
	r := &Result{CRD: "things.example.com", Version: "v1"}
	for _, namespace := range []string{"a", "b", "c"} {
		for n := range 4 {
			obj := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}
			r.add(obj, verdictOf([]violation{{kind: "K"}}))
		}
	}
	for may, want := range map[string]string{
		"":    "12 in namespaces that the OperatorGroup does not select",
		"b":   "b/0 (K), b/1 (K), b/2 (K), b/3 (K), 8 in namespaces that the OperatorGroup does not select",
		"ac":  "a/0 (K), a/1 (K), a/2 (K), a/3 (K), c/0 (K), 3 more, 4 in namespaces that the OperatorGroup does not select",
		"abc": "a/0 (K), a/1 (K), a/2 (K), a/3 (K), b/0 (K), 7 more",
	} {
		err := r.Err(func(namespace string) bool { return strings.Contains(may, namespace) })
		require.ErrorContains(t, err, head+"12 object(s) would be invalid in version v1: "+want)
	}
}

func TestAClusterScopedObjectIsNamedWithoutNamespace(t *testing.T) {
	require.Equal(t, "a (K)", describe(types.NamespacedName{Name: "a"}, verdictOf([]violation{{kind: "K"}})))
}
