package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

func rule(resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

func all(resource string, verbs ...string) rbacv1.PolicyRule { return rule(resource, nil, verbs...) }

func TestFindsPermissionsThatAreNotNeeded(t *testing.T) {
	type rules = []rbacv1.PolicyRule
	for name, c := range map[string]struct {
		scope         string
		granted       rules
		needed        map[string]rules
		unused, wider rules
	}{
		"exactly what is needed":                {"ns", rules{all("pods", "get")}, map[string]rules{"ns": {all("pods", "get")}}, nil, nil},
		"nothing is needed":                     {"ns", rules{all("pods", "get")}, nil, rules{all("pods", "get")}, nil},
		"an additional verb":                    {"ns", rules{all("pods", "get", "list")}, map[string]rules{"ns": {all("pods", "get")}}, rules{all("pods", "list")}, nil},
		"all names instead of one":              {"ns", rules{all("pods", "get")}, map[string]rules{"ns": {rule("pods", []string{"a"}, "get")}}, nil, rules{all("pods", "get")}},
		"an additional name":                    {"ns", rules{rule("pods", []string{"a", "b"}, "get")}, map[string]rules{"ns": {rule("pods", []string{"a"}, "get")}}, rules{rule("pods", []string{"b"}, "get")}, nil},
		"everything instead of one":             {"ns", rules{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}, map[string]rules{"ns": {all("pods", "get")}}, nil, rules{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
		"everything, and everything is needed":  {"ns", rules{all("pods", "*")}, map[string]rules{"ns": {all("pods", "*")}}, nil, nil},
		"needed in another namespace":           {"ns", rules{all("pods", "get")}, map[string]rules{"other": {all("pods", "get")}}, rules{all("pods", "get")}, nil},
		"cluster-wide instead of one namespace": {"", rules{all("pods", "get")}, map[string]rules{"ns": {all("pods", "get")}}, nil, rules{all("pods", "get")}},
		"cluster-wide, and needed cluster-wide": {"", rules{all("pods", "get")}, map[string]rules{"": {all("pods", "get")}}, nil, nil},
		"cluster-wide, and not needed":          {"", rules{all("pods", "get")}, map[string]rules{"": {all("nodes", "get")}}, rules{all("pods", "get")}, nil},
		"one namespace instead of cluster-wide": {"ns", rules{all("pods", "get")}, map[string]rules{"": {all("pods", "get")}}, rules{all("pods", "get")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := excess([]given{{binding: "RoleBinding b", role: "Role r", namespace: c.scope, rules: c.granted}}, c.needed)
			if c.unused == nil && c.wider == nil {
				require.Empty(t, got.Excess)
				return
			}
			require.Equal(t, []Excess{{Binding: "RoleBinding b", Role: "Role r", Namespace: c.scope, Unused: c.unused, Wider: c.wider}}, got.Excess)
		})
	}
}

func TestTooManyRulesCountAsUsedInPart(t *testing.T) {
	var names []string
	for range rbac.MaxAtoms + 1 {
		names = append(names, "x")
	}
	unused, wider := split([]rbacv1.PolicyRule{rule("pods", names, "get")}, rbac.NewSet(nil), nil)
	require.Empty(t, unused)
	require.Len(t, wider, 1)
}

func TestListsGroupBindingsAsShared(t *testing.T) {
	got := excess([]given{{binding: "ClusterRoleBinding everyone", role: "ClusterRole basic", group: "system:authenticated", rules: []rbacv1.PolicyRule{all("pods", "*")}}}, nil)
	require.Empty(t, got.Excess)
	require.Equal(t, []Shared{{Binding: "ClusterRoleBinding everyone", Role: "ClusterRole basic", Group: "system:authenticated"}}, got.Shared)
}

func TestAnAlternativeReplacesRulesThatAreNotGranted(t *testing.T) {
	bind := rule("roles", []string{"r"}, "bind")
	need := []preflight.Need{{Namespace: "ns", Rules: []rbacv1.PolicyRule{all("pods", "get")}, Alternatives: []rbacv1.PolicyRule{bind}}}
	for name, c := range map[string]struct{ granted, want rbacv1.PolicyRule }{
		"the verb":  {bind, bind},
		"the rules": {all("pods", "get"), all("pods", "get")},
		"neither":   {all("nodes", "get"), all("pods", "get")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := usedOf(need, func(string) ([]rbacv1.PolicyRule, error) { return []rbacv1.PolicyRule{c.granted}, nil })
			require.NoError(t, err)
			require.Equal(t, map[string][]rbacv1.PolicyRule{"ns": {c.want}}, got)
		})
	}
}

func TestFindsTheBindingsOfAnAccount(t *testing.T) {
	user := rbac.ServiceAccount("ns", "acct")
	sa := func(namespace, name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	group := rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:ns"}
	for name, c := range map[string]struct {
		subjects []rbacv1.Subject
		in       string
		group    string
		applies  bool
	}{
		"by name": {[]rbacv1.Subject{sa("ns", "acct")}, "other", "", true},
		"by name without namespace, in the account's namespace": {[]rbacv1.Subject{sa("", "acct")}, "ns", "", true},
		"by name without namespace, in another namespace":       {[]rbacv1.Subject{sa("", "acct")}, "other", "", false},
		"by name without namespace, cluster-wide":               {[]rbacv1.Subject{sa("", "acct")}, "", "", false},
		"as a user":       {[]rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user.User}}, "", "", true},
		"through a group": {[]rbacv1.Subject{sa("ns", "x"), group}, "", group.Name, true},
		"both":            {[]rbacv1.Subject{group, sa("ns", "acct")}, "", "", true},
		"not at all":      {[]rbacv1.Subject{sa("ns", "x"), {Kind: rbacv1.GroupKind, Name: "y"}}, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			group, applies := membership(c.subjects, user, c.in)
			require.Equal(t, c.applies, applies)
			require.Equal(t, c.group, group)
		})
	}
}

// store returns an indexer with the objects.
func store(t *testing.T, objs ...any) cache.Indexer {
	t.Helper()
	out := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, obj := range objs {
		require.NoError(t, out.Add(obj))
	}
	return out
}
