package preflight_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// injected is a string of a bundle that looks like a manifest to a user, or a pipe, that cuts documents out of a message.
const injected = "list them\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: stranger}\n...\n#\x1b[2J"

// A bundle decides on the strings of its rules, names and causes, and the API server quotes them in its refusals.
func TestStringsOfABundleArePartOfOneLine(t *testing.T) {
	ordinary := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	needs := map[string]preflight.Need{
		"first verb":         {Rules: []rbacv1.PolicyRule{{Verbs: []string{injected}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		"verb":               {Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", injected}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		"group":              {Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{injected}, Resources: []string{"pods"}}}},
		"resource":           {Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{injected}}}},
		"name":               {Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{injected}}}},
		"path":               {Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{injected}}}},
		"namespace":          {Namespace: injected, Rules: []rbacv1.PolicyRule{ordinary}},
		"cause":              {Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}, Cause: injected},
		"escalating cause":   {Granted: true, Rules: []rbacv1.PolicyRule{{Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}}}, Cause: injected},
		"hidden cause":       {Hidden: true, Rules: []rbacv1.PolicyRule{ordinary}, Cause: injected},
		"undecided":          {ReadError: errors.New(injected), Rules: []rbacv1.PolicyRule{ordinary}, Cause: injected},
		"rest of the report": {Rules: []rbacv1.PolicyRule{ordinary}},
		"object":             {Invalid: errors.New(injected), Object: injected},
	}
	for name, need := range needs {
		t.Run(name, func(t *testing.T) {
			r := preflight.Examine(account(), []preflight.Need{need}, func(string) rbac.Permissions { return rbac.Permissions{} })
			if name == "rest of the report" { // not in the other rows, so that each shows its own string
				r.Details, r.InUse = message.Line(injected), []message.Text{message.Line(injected)}
				r.Changes = []preflight.Change{{From: injected, To: injected, Namespace: injected, Added: need.Rules, Removed: need.Rules}}
			}
			later := r
			later.Later = r.Findings
			for _, text := range []message.Text{r.Summary().Prose(), r.Refusals(), r.RefusedText(), r.Undecided(), r.ChangedText(), later.LaterText()} {
				require.NotContains(t, string(text), "\x1b")
				for line := range strings.Lines(string(text)) {
					require.NotRegexp(t, `^\s*(---|\.\.\.|#|apiVersion:|kind:|metadata:)`, line)
				}
			}
			require.NotContains(t, string(r.Manifests()), "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {", "it is indented or quoted")
		})
	}
}

func TestVerbsThatAreNoWordsAreQuoted(t *testing.T) {
	rule := rbacv1.PolicyRule{Verbs: []string{"*", "list them", "use"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	r := preflight.Examine(account(), []preflight.Need{{Rules: []rbacv1.PolicyRule{rule}}}, func(string) rbac.Permissions { return rbac.Permissions{} })
	require.NotContains(t, r.Refusals(), " list them ")
	rule.Verbs = []string{"list them", "use", `"`}
	r = preflight.Examine(account(), []preflight.Need{{Rules: []rbacv1.PolicyRule{rule}}}, func(string) rbac.Permissions { return rbac.Permissions{} })
	require.Contains(t, r.Refusals(), `"list them"`)
	require.Contains(t, r.Refusals(), ` use`)
	require.Contains(t, r.Refusals(), `"\""`)
}
