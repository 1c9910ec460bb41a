package preflight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func TestSummariesBeginWithTheReasonForClusterAdmin(t *testing.T) {
	steps := []string{
		`aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}`,
		`rules: [{verbs: [escalate, "*"], apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles]}]`,
		`rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]`,
	}
	for i, want := range []string{
		`The requested permissions amount to cluster-admin: every verb on every resource (write ClusterRole x, which aggregates other ClusterRoles, ` +
			`so the API server requires all permissions).`,
		`The requested permissions amount to cluster-admin: "bind" on clusterroles (grant the rules of ClusterRole x), "escalate" on clusterroles (grant the rules of ClusterRole x).`,
		"",
	} {
		needs, err := NeedsOf([]step.Step{rbacObject(t, "ClusterRole", "", steps[i])}, nothingLive, func(step.Step) bool { return false })
		require.NoError(t, err)
		report := Examine(bounded, needs, granting())
		require.Equal(t, want, string(report.ClusterAdmin()))
		require.Equal(t, want, report.Document().ClusterAdmin)
		if want == "" {
			require.Contains(t, firstLine(string(report.Summary())), "ServiceAccount ns/installer is missing 2 permissions;")
			continue
		}
		require.Equal(t, want, firstLine(string(report.Summary())), "the first line of a plan's condition")
		require.Equal(t, want, firstLine(string(report.Refusals())))
		files, err := report.Files()
		require.NoError(t, err)
		require.Equal(t, "# "+want, firstLine(files[FileGrant]))
	}
}

func TestClusterAdminIsOneLimitedLineAboutTheWholeCluster(t *testing.T) {
	everything := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	report := Report{Identity: bounded, Findings: []Finding{{Namespace: "ns", Missing: everything}, {Missing: everything, Hidden: true}}}
	require.Empty(t, string(report.ClusterAdmin()), "rules in one namespace and hidden rules do not count")
	for i := range 100 {
		report.Findings = append(report.Findings, Finding{Missing: everything, Cause: fmt.Sprint(i, strings.Repeat("x\n", 1000))})
	}
	line := string(report.ClusterAdmin())
	require.NotContains(t, line, "\n")
	require.Less(t, len(line), 1000)
	require.Contains(t, line, "and 98 more")
}

// There are too many rules to expand, but one of them covers all others.
func TestCompactsGrantsOfLargeOperators(t *testing.T) {
	everything := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	report := Report{Identity: bounded, Findings: []Finding{{Missing: everything, Cause: "all"}}}
	for i := range 333 {
		many := make([]string, 500)
		for j := range many {
			many[j] = fmt.Sprint("r", i, "-", j)
		}
		rule := rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{"g"}, Resources: many}
		for _, namespace := range []string{rbac.ClusterScope, "ns"} {
			report.Findings = append(report.Findings, Finding{Namespace: namespace, Missing: []rbacv1.PolicyRule{rule}, Cause: "some"})
		}
	}
	require.Equal(t, []Scope{{Rules: everything}}, report.Scopes())
	require.Less(t, strings.Count(string(report.Manifests()), "\n"), 40)
}
