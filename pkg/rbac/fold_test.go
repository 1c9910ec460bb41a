package rbac

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// broad returns a rule that expands to ten thousand combinations.
func broad(prefix string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: values("g", 10), Resources: values(prefix, 100), Verbs: values("v", 10)}
}

func TestMinimalFoldsRulesOfAnySize(t *testing.T) {
	everything := rules("* *:*")
	var many []rbacv1.PolicyRule
	for i := range 333 {
		many = append(many, broad(fmt.Sprint("r", i, "-")))
	}
	narrower := broad("r1-")
	narrower.Verbs = []string{"v1"}
	more := broad("r1-")
	more.Verbs = append(more.Verbs, "more")
	for name, row := range map[string]struct{ in, want []rbacv1.PolicyRule }{
		"all covered by one rule":  {slices.Concat(many, everything), everything},
		"duplicates":               {slices.Concat(many[:9], many[:9]), Minimal(many[:9])},
		"part of another rule":     {slices.Concat([]rbacv1.PolicyRule{narrower}, many[:9]), Minimal(many[:9])},
		"difference in one field":  {append(many[:9:9], more), Minimal(append(slices.Concat(many[:1], many[2:9]), more))},
		"small remainder":          {slices.Concat(many, everything, rules("get /x", "* /x,/y")), append(everything, rules("* /x,/y")...)},
		"stars among other values": {slices.Concat(many, rules("* *:*,pods", "get /x*,/x**")), append(everything, rules("get /x*")...)},
		"rule without verbs":       {append(slices.Concat(many, everything), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"x"}}), everything},
	} {
		t.Run(name, func(t *testing.T) {
			require.Greater(t, Size(row.in), MaxAtoms)
			require.ElementsMatch(t, row.want, Minimal(row.in))
		})
	}
}

func TestFoldedRulesAreEquivalentAndNoneIsCovered(t *testing.T) {
	for seed := range int64(500) {
		in := randomRules(rand.New(rand.NewSource(seed)))
		got := folded(oneStar(in))
		require.Empty(t, Missing(got, in), "seed %d", seed)
		require.Empty(t, Missing(in, got), "seed %d", seed)
		for i := range got {
			rest := slices.Concat(got[:i], got[i+1:])
			for _, by := range rest {
				require.NotEmpty(t, Missing([]rbacv1.PolicyRule{by}, got[i:i+1]), "seed %d: %s covers %s", seed, Line(by), Line(got[i]))
			}
		}
	}
}

func TestUncoveredOmitsCoveredRulesOfAnySize(t *testing.T) {
	var many []rbacv1.PolicyRule
	for i := range 10 {
		many = append(many, broad(fmt.Sprint("r", i, "-")))
	}
	require.Greater(t, Size(many), MaxAtoms)
	require.Empty(t, NewSet(rules("* *:*")).Uncovered(many))
	require.Len(t, NewSet(many[:3]).Uncovered(many), 7)
	require.Equal(t, rules("get :pods"), NewSet(rules("list :pods")).Uncovered(rules("get,list :pods")))
}
