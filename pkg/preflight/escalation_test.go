package preflight

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/step"
)

// An account that has these permissions can grant them, and then the operator is not limited to the account.
func TestWarnsAboutPermissionsWithWhichOthersCanBeObtained(t *testing.T) {
	rules := []rbacv1.PolicyRule{{Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, ResourceNames: []string{"x"}}}
	role := rbacObject(t, "Role", "ns", `rules: [{verbs: [bind], apiGroups: [rbac.authorization.k8s.io], resources: [roles], resourceNames: [x]}]`)
	needs, err := NeedsOf([]step.Step{role}, nothingLive, func(step.Step) bool { return false })
	require.NoError(t, err)
	const want = `Warning: the install grants permissions with which an operator can obtain more permissions than ServiceAccount ns/installer has: "bind" on roles (grant the rules of Role ns/x).`
	missing := Examine(bounded, needs, granting())
	require.Equal(t, want, string(missing.Escalation()))
	require.Contains(t, string(missing.Summary()), "\n"+want+"\n")
	require.Equal(t, want, missing.Document().Escalation)

	all := append(rules, rbacv1.PolicyRule{Verbs: []string{"get", "create", "patch", "delete"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}})
	held := Examine(bounded, needs, granting(all...))
	require.True(t, held.Empty())
	require.Equal(t, want, string(held.Escalation()), "although nothing is missing")

	hidden := Need{Granted: true, Hidden: true, Rules: rules, Cause: "secret"}
	requested := Need{Rules: rules, Cause: "needed by Remit itself"}
	require.Empty(t, string(Examine(bounded, []Need{hidden, requested}, granting()).Escalation()))

	admin := Need{Granted: true, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}, Cause: "grant everything"}
	everything := Examine(bounded, []Need{admin}, granting())
	require.NotEmpty(t, string(everything.ClusterAdmin()))
	require.Contains(t, string(everything.Summary()), string(everything.Escalation()), "even if everything is missing")

	long := Need{Granted: true, Rules: rules, Cause: strings.Repeat("x\n", 1000)}
	line := string(Examine(bounded, []Need{long}, granting()).Escalation())
	require.NotContains(t, line, "\n")
	require.Less(t, len(line), 1000)
}
