package excess

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// padding returns a rule for getting pods by name.
func padding(resources int, n int) rbacv1.PolicyRule {
	rule := may("get", "pods")
	for i := range resources - 1 {
		rule.Resources = append(rule.Resources, fmt.Sprintf("pods/r%d", i))
	}
	for i := range n {
		rule.ResourceNames = append(rule.ResourceNames, fmt.Sprintf("p%d", i))
	}
	return rule
}

func TestPaddingARoleDoesNotHideAnExcess(t *testing.T) {
	t.Parallel()
	pods, nodes, lists := may("get", "pods"), may("get", "nodes"), may("list", "nodes")
	pods.Resources = []string{"*"}
	within := may("get", "pods")
	var many []rbacv1.PolicyRule
	for range 51 {
		many = append(many, padding(1, 990))
	}
	var long []rbacv1.PolicyRule // two of these together have more text than one query allows
	for i := range 3 {
		rule := padding(1, 0)
		for n := range 950 {
			rule.ResourceNames = append(rule.ResourceNames, fmt.Sprintf("%d-%d-%s", i, n, strings.Repeat("x", 240)))
		}
		rule.Verbs = slices.Repeat([]string{"get"}, 20)
		long = append(long, rule)
	}
	var various []rbacv1.PolicyRule
	for i := range rbac.MaxRoleRules + 1 {
		various = append(various, may("get", fmt.Sprint("pods", i)))
	}
	bind := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"bind", "escalate"}}
	for name, row := range map[string]struct {
		rules   []rbacv1.PolicyRule
		account []rbacv1.PolicyRule
		missing []rbacv1.PolicyRule
		whole   bool
		want    bool
	}{
		"one more permission after many rules":     {rules: append(many, nodes), account: []rbacv1.PolicyRule{within}, missing: []rbacv1.PolicyRule{nodes}, whole: true, want: true},
		"many rules that the account covers":       {rules: many, account: []rbacv1.PolicyRule{within}},
		"long names that the account covers":       {rules: append(long, lists), account: []rbacv1.PolicyRule{pods}, missing: []rbacv1.PolicyRule{lists}, whole: true, want: true},
		"one large rule that the account covers":   {rules: []rbacv1.PolicyRule{padding(200, 990)}, account: []rbacv1.PolicyRule{pods}},
		"more than is evaluated":                   {rules: []rbacv1.PolicyRule{padding(990, 990), nodes}, account: []rbacv1.PolicyRule{pods}, want: true},
		"more rules than are kept":                 {rules: rbac.KeptRules(various), account: []rbacv1.PolicyRule{pods}, want: true},
		"more than is evaluated, that it may bind": {rules: []rbacv1.PolicyRule{padding(990, 990), nodes}, account: []rbacv1.PolicyRule{pods, bind}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objs := granted(t, "", "a", row.rules...)
			account := Account{
				RulesOf: func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) { return row.rules, nil },
				Granted: func(ns string) rbac.Permissions { return rbac.Permissions{Namespace: ns, Rules: row.account} },
			}
			found, err := account.Find([]client.Object{objs[0], objs[1]})
			require.NoError(t, err)
			if !row.want {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 2, "the binding and the role")
			for _, o := range found {
				require.Equal(t, row.missing, o.Missing)
				require.Equal(t, row.whole, !o.Unevaluated)
			}
			require.NotEmpty(t, Missing(found, 100))
			ask := func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
				return rbac.NewSet(row.account).Covers([]rbacv1.PolicyRule{atom}), nil
			}
			confirmed, _, err := account.Confirm(t.Context(), ask, rbac.Subject{}, found)
			require.NoError(t, err)
			require.Len(t, confirmed, 2)
		})
	}
}

// Two roles of a few KB can lack more combinations than fit into memory as text.
func TestWhatIsMissingIsLimited(t *testing.T) {
	t.Parallel()
	rule := may("get", "pods")
	for i := range 200 {
		rule.APIGroups = append(rule.APIGroups, fmt.Sprint(strings.Repeat("g", 100), i))
		rule.Resources = append(rule.Resources, fmt.Sprint(strings.Repeat("r", 50), i))
	}
	found := []Object{{Scope: "a", Missing: []rbacv1.PolicyRule{rule}, Unevaluated: true}}
	lines := rbac.Lines("a", found[0].Missing, 200)
	require.Len(t, lines, 1000)
	require.Greater(t, len(rbac.Split(found[0].Missing, 200)), 20_000)
	require.Contains(t, Missing(found, 1<<20), "in namespace a more combinations than Remit evaluates")
	for i := range 100 {
		found = append(found, Object{Scope: fmt.Sprint("b", i), Missing: []rbacv1.PolicyRule{rule}})
	}
	require.Len(t, Missing(found, 200), maxLines)
	require.LessOrEqual(t, len(strings.Join(Missing(found, 20_000), "")), maxLineBytes)
}
