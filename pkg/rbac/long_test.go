package rbac

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// longWords returns a rule whose combinations all contain a group of this length.
func longWords(length, resources, names int) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{strings.Repeat("g", length)}, Verbs: []string{"get"}}
	for i := range resources {
		rule.Resources = append(rule.Resources, fmt.Sprint("r", i))
	}
	for i := range names {
		rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint("n", i))
	}
	return rule
}

// allocated returns how many bytes an iteration of the benchmark allocates. The test fails if the benchmark does, of which
// testing.Benchmark only says that it had no iterations.
func allocated(t *testing.T, f func(*testing.B)) int64 {
	t.Helper()
	result := testing.Benchmark(f)
	require.NotZero(t, result.N, "the benchmark failed")
	return result.AllocedBytesPerOp()
}

// The key of each combination contained the group: 50,000 combinations with a group of 60 KB took 2.7 GiB.
func TestCombinationsOfLongWordsAreTooLarge(t *testing.T) {
	ordinary := longWords(30, 50, 999)
	require.False(t, TooLarge([]rbacv1.PolicyRule{ordinary}))
	long := []rbacv1.PolicyRule{longWords(60<<10, 50, 99)}
	require.True(t, TooLarge(long))
	require.ErrorIs(t, ValidateRules(long, true), ErrTooLarge)
	memory := allocated(t, func(b *testing.B) {
		for b.Loop() {
			require.Equal(b, long, Missing(nil, long))
			require.Equal(b, long, Compact(long))
			require.Equal(b, long, Split(long, 350))
			require.Empty(b, Atoms(long))
		}
	})
	require.Less(t, memory, int64(1<<20))
	rules := []rbacv1.PolicyRule{}
	for range 300 {
		rules = append(rules, longWords(300, 100, 1))
	}
	require.True(t, TooLarge(rules), "all rules count together")
}

func TestTheLengthOfCombinationsIsExact(t *testing.T) {
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: []string{"a", "bc"}, Resources: []string{"def"}, Verbs: []string{"g", "hi", "jkl"}},
		{APIGroups: []string{"a", "bc"}, Resources: []string{"def", ""}, Verbs: []string{"g", "hi", "jkl"}, ResourceNames: []string{"", "mnop"}},
		{NonResourceURLs: []string{"/a", "/bc"}, Verbs: []string{"get", "x"}},
		{APIGroups: []string{"a"}, Verbs: []string{"get"}},
	} {
		want := 0
		for _, atom := range Atoms([]rbacv1.PolicyRule{rule}) {
			for _, list := range [][]string{atom.APIGroups, atom.Resources, atom.Verbs, atom.ResourceNames, atom.NonResourceURLs} {
				want += len(strings.Join(list, ""))
			}
		}
		require.Equal(t, want, lengthOfAtoms(rule), "%v", rule)
	}
}

func TestLinesAreLimited(t *testing.T) {
	few := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "secrets"}, Verbs: []string{"get"}}}
	require.Equal(t, []string{
		`in namespace a {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`,
		`in namespace a {apiGroups: [""], resources: ["secrets"], verbs: ["get"]}`,
	}, Lines("a", few, 60))
	require.Equal(t, []string{`cluster-wide {apiGroups: [""], resources: ["pods", "secrets"], verbs: ["get"]}`}, Lines(ClusterScope, few, 100))
	many := []rbacv1.PolicyRule{longWords(100, 50, 999)}
	require.Len(t, Lines("a", many, 200), maxLines)
	memory := allocated(t, func(b *testing.B) {
		for b.Loop() {
			require.NotEmpty(b, Lines("a", many, 300))
		}
	})
	require.Less(t, memory, int64(16<<20))
	require.LessOrEqual(t, len(strings.Join(Lines("a", []rbacv1.PolicyRule{longWords(500, 50, 300)}, 5000), "")), maxLineBytes)
	require.Len(t, Lines("a", []rbacv1.PolicyRule{longWords(1<<20, 1, 1), few[0]}, 300), 1, "a line that is too long is shown, but none after it")
}
