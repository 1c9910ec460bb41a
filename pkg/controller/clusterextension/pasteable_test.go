package clusterextension

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// documents returns the objects of a text that begins with the first line of three dashes, as a user pastes it.
func documents(t *testing.T, text string) (roles []rbacv1.ClusterRole) {
	t.Helper()
	_, text, ok := strings.Cut(text, "\n---\n")
	require.True(t, ok, text)
	for _, doc := range strings.Split(text, "\n---\n") {
		role := rbacv1.ClusterRole{} // bindings have other fields
		require.NoError(t, yaml.Unmarshal([]byte(doc), &role))
		roles = append(roles, role)
	}
	return roles
}

func TestProgressingContainsWhatCanBePasted(t *testing.T) {
	role := []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	write := []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}}}
	verb := func(verb string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"op"}}}
	}
	needs := []preflight.Need{
		{Rules: write, Cause: "create ClusterRole op"},
		{Rules: role, Granted: true, Alternatives: verb("escalate"), Cause: "grant the rules of ClusterRole op"},
		{Rules: role, Granted: true, Alternatives: verb("bind"), Cause: "bind ClusterRole op"},
	}
	nothing := func(string) rbac.Permissions { return rbac.Permissions{} }
	r := preflight.Examine(scoped.Identity{Extension: "demo"}, needs, nothing)
	const enrollment = "---\nkind: ClusterRole\nmetadata: {name: enrollment}\n"
	text := string(pasteable("demo", r, enrollment, preflight.MaxSummary))
	require.True(t, strings.HasPrefix(text, "To grant the missing permissions, run \"kubectl remit grant clusterextension/demo\" or apply:\n"+enrollment), text)
	objs := documents(t, text)
	require.Len(t, objs, 3, "the enrollment, the role and its binding")
	require.Empty(t, rbac.Missing(objs[1].Rules, append(role, write...)))
	require.Empty(t, rbac.Missing(append(role, write...), objs[1].Rules), "the alternative is not applied")

	// A user who removes the first part and the comments grants the alternative.
	_, alternative, ok := strings.Cut(text, "\n# Instead of the rules")
	require.True(t, ok, text)
	objs = documents(t, strings.ReplaceAll(alternative, "\n# ", "\n"))
	require.Len(t, objs, 3)
	want := append(append(write, verb("escalate")...), verb("bind")...)
	require.Empty(t, rbac.Missing(want, objs[1].Rules))
	require.Empty(t, rbac.Missing(objs[1].Rules, want))

	require.NotContains(t, pasteable("demo", r, enrollment, len(text)-1), "# Instead", "it does not fit")
	require.EqualValues(t, "To grant the missing permissions, run \"kubectl remit grant clusterextension/demo\"", pasteable("demo", r, "", 200))
	require.LessOrEqual(t, len(pasteable("demo", r, enrollment, 1500)), 1500)

	without := preflight.Examine(scoped.Identity{Extension: "demo"}, needs[:1], nothing)
	require.NotContains(t, pasteable("demo", without, "", preflight.MaxSummary), "# Instead", "no role is written")
}
