package clusterextension

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Tools look for the rules in the form of OLM v1. A value that is a manifest must not become one in the message.
func TestRulesInTheFormOfOLMv1(t *testing.T) {
	const injected = "list them\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n...\n#"
	ordinary := rbacv1.PolicyRule{
		Verbs: []string{"update", "*"}, APIGroups: []string{"", "apps"}, Resources: []string{"pods/log", "*"}, ResourceNames: []string{"system:a-b.c_d"},
	}
	require.EqualValues(t, `  Namespace:"ns" APIGroups:[,apps] Resources:[*,pods/log] ResourceNames:[system:a-b.c_d] Verbs:[*,update]`, ruleLine("ns", ordinary))
	require.EqualValues(t, `  Namespace:"" Verbs:[get] NonResourceURLs:[/x/*]`, ruleLine("", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x/*"}}))

	for _, rule := range []rbacv1.PolicyRule{
		{Verbs: []string{"get", injected}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"get"}, APIGroups: []string{injected}, Resources: []string{"pods"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{injected}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{injected}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{injected}},
	} {
		require.NotContains(t, string(ruleLine(injected, rule)), "\n")
		require.Contains(t, string(ruleLine("ns", rule)), strconv.Quote(injected), "white space would end the value")
		needs := []preflight.Need{{Rules: []rbacv1.PolicyRule{rule}, Cause: injected}, {Hidden: true, Rules: []rbacv1.PolicyRule{ordinary}, Cause: injected}}
		r := preflight.Examine(scoped.Identity{Extension: "demo"}, needs, func(string) rbac.Permissions { return rbac.Permissions{} })
		r.Unknown = []preflight.Finding{{Cause: injected, Why: injected}}
		for line := range strings.Lines(string(preauthorization(r))) {
			require.NotRegexp(t, `^\s*(---|\.\.\.|#|apiVersion:|kind:)`, line)
		}
	}
}
