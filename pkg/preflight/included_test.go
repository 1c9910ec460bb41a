package preflight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// A bundle can have 9,000 rules with wildcards, and as many permissions can be missing.
func TestComparesALimitedNumberOfRulesWithWildcards(t *testing.T) {
	scope, finding := Scope{Namespace: "n"}, Finding{Namespace: "n"}
	for i := range 300 {
		group := fmt.Sprintf("g%d.example.com", i)
		scope.Rules = append(scope.Rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"create"}})
		finding.Missing = append(finding.Missing, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"clusterserviceversions"}, Verbs: []string{"create"}})
	}
	lines := Report{}.lines([]Scope{scope}, []Finding{finding})
	require.Len(t, lines, 300, "each rule has its line")
	for i, line := range lines {
		require.Equal(t, i < 100, strings.Contains(string(line), "this includes"), "%d %s", i, line)
	}
}
