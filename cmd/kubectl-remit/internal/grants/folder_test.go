package grants

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

var account = scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "a", Name: "sa"})

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return dir
}

func rulesIn(t *testing.T, dir, namespace string) []rbacv1.PolicyRule {
	t.Helper()
	listers, err := Folder(dir)
	require.NoError(t, err)
	permissions := Listed(listers, account).In(namespace)
	require.Empty(t, permissions.ReadErrors)
	return permissions.Rules
}

const (
	rules = `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`
	role  = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: a, name: r}, ` + rules + `}`
	bound = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: a, name: b}, ` +
		`roleRef: {kind: Role, name: r}, subjects: [{kind: ServiceAccount, name: sa}]}`
)

var pods = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}

func TestReadsFoldersInEveryForm(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a file for each object":        {"role.yaml": role, "deep/er/binding.yml": bound},
		"several documents in one file": {"all.yaml": "# comment\n---\n" + role + "\n---\n" + bound + "\n---\n"},
		"a List":                        {"all.yaml": "{apiVersion: v1, kind: List, items: [" + role + ", " + bound + "]}"},
		"a typed list":                  {"r.yaml": "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleList, items: [" + role + "]}", "b.yaml": bound},
		"JSON":                          {"all.json": `{"apiVersion":"v1","kind":"List","items":[` + `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"namespace":"a","name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}` + `]}`, "b.yaml": bound},
		"with other objects":            {"all.yaml": role + "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n" + bound, "README.md": "{"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, files)
			require.Equal(t, []rbacv1.PolicyRule{pods}, rulesIn(t, dir, "a"))
			require.Empty(t, rulesIn(t, dir, "b"))
			require.Empty(t, rulesIn(t, dir, rbac.ClusterScope))
		})
	}
}

func TestReadsASingleFile(t *testing.T) {
	dir := write(t, map[string]string{"all": role + "\n---\n" + bound, "other.yaml": "{"})
	require.Equal(t, []rbacv1.PolicyRule{pods}, rulesIn(t, filepath.Join(dir, "all"), "a"))
}

func TestAggregatesClusterRoles(t *testing.T) {
	const clusterRole = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
	dir := write(t, map[string]string{"all.yaml": clusterRole +
		"metadata: {name: top, namespace: ignored}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {to: top}}]}\n" +
		"rules: [{apiGroups: [''], resources: [nodes], verbs: [get]}]\n---\n" + // the aggregation controller would overwrite these rules
		clusterRole + "metadata: {name: middle, labels: {to: top}}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {to: middle}}]}\n---\n" +
		clusterRole + "metadata: {name: zleaf, labels: {to: middle}}\n" + rules + "\n---\n" +
		clusterRole + "metadata: {name: other}\nrules: [{nonResourceURLs: [/x], verbs: [get]}]\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\nroleRef: {kind: ClusterRole, name: top}\n" +
		"subjects: [{kind: Group, name: 'system:serviceaccounts:a'}]\n"})
	require.Equal(t, []rbacv1.PolicyRule{pods}, rulesIn(t, dir, rbac.ClusterScope))
	require.Equal(t, []rbacv1.PolicyRule{pods}, rulesIn(t, dir, "anywhere"))
}

func TestNamesObjectsThatTheServerWouldReject(t *testing.T) {
	object := func(kind, rest string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: " + kind + "\nmetadata: {namespace: a, name: x}\n" + rest
	}
	const ref = "roleRef: {kind: Role, name: r}\n"
	for name, row := range map[string]struct{ text, want string }{
		"not YAML":                             {"a: [", "f.yaml: "},
		"not an object":                        {"[1]", "f.yaml: the document is not an object with a kind"},
		"a duplicate key":                      {object("Role", "rules: []\nrules: []"), `f.yaml: `},
		"another version":                      {"apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: Role\nmetadata: {name: x, namespace: a}", "f.yaml: Role a/x: rbac.authorization.k8s.io/v1beta1, Kind=Role is not supported"},
		"another kind":                         {object("Rule", ""), "f.yaml: Rule a/x: rbac.authorization.k8s.io/v1, Kind=Rule is not supported"},
		"an unknown field":                     {object("Role", "rules: [{apiGroup: ['']}]"), `f.yaml: Role a/x: strict decoding error: unknown field "rules[0].apiGroup"`},
		"no verbs":                             {object("Role", "rules: [{apiGroups: [''], resources: [pods]}]"), "f.yaml: Role a/x: rules[0]: Forbidden: rule"},
		"URLs in a namespace":                  {object("Role", "rules: [{nonResourceURLs: [/x], verbs: [get]}]"), "only for the whole cluster"},
		"no namespace":                         {"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: x}", "f.yaml: Role x: metadata.namespace: Required value"},
		"no name":                              {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole", "metadata.name: Required value"},
		"a name that is a path":                {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a/b}", "may not contain '/'"},
		"an empty aggregation":                 {object("ClusterRole", "aggregationRule: {}"), "aggregationRule.clusterRoleSelectors: Required value"},
		"a malformed selector":                 {object("ClusterRole", "aggregationRule: {clusterRoleSelectors: [{matchLabels: {'a b': c}}]}"), "clusterRoleSelectors[0].matchLabels"},
		"a roleRef to another kind":            {object("RoleBinding", "roleRef: {kind: Deployment, name: r}"), `roleRef.kind: Unsupported value: "Deployment"`},
		"a ClusterRoleBinding to a Role":       {object("ClusterRoleBinding", ref), `f.yaml: ClusterRoleBinding a/x: roleRef.kind: Unsupported value: "Role"`},
		"a roleRef without a name":             {object("RoleBinding", "roleRef: {kind: Role}"), "roleRef.name: Required value"},
		"a roleRef to another group":           {object("RoleBinding", "roleRef: {apiGroup: apps, kind: Role, name: r}"), `roleRef.apiGroup: Unsupported value: "apps"`},
		"a subject without a kind":             {object("RoleBinding", ref+"subjects: [{name: x}]"), `subjects[0].kind: Unsupported value: ""`},
		"a ServiceAccount with a group":        {object("RoleBinding", ref+"subjects: [{kind: ServiceAccount, name: x, apiGroup: apps}]"), `subjects[0].apiGroup: Unsupported value: "apps"`},
		"a ServiceAccount without a name":      {object("RoleBinding", ref+"subjects: [{kind: ServiceAccount}]"), "subjects[0].name: Required value"},
		"an invalid ServiceAccount name":       {object("RoleBinding", ref+"subjects: [{kind: ServiceAccount, name: X}]"), `subjects[0].name: Invalid value: "X"`},
		"a ServiceAccount without a namespace": {object("ClusterRoleBinding", "roleRef: {kind: ClusterRole, name: r}\nsubjects: [{kind: ServiceAccount, name: x}]"), "subjects[0].namespace: Required value"},
		"one object in two documents":          {role + "\n---\n" + role, "f.yaml: Role a/r: is also defined in f.yaml"},
		"an alias bomb":                        {bomb(), "f.yaml: "},
		"an element that is not an object":     {"{apiVersion: v1, kind: List, items: [1]}", "f.yaml: "},
		"all problems, not just the first":     {object("Role", "rules: 1") + "\n---\n" + object("Roll", ""), "Roll a/x: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Folder(write(t, map[string]string{"f.yaml": row.text}))
			require.ErrorContains(t, err, row.want)
		})
	}
	_, err := Folder(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func bomb() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		a, b := string(rune('0'+i)), string(rune('1'+i))
		text += "a" + b + ": &a" + b + " [*a" + a + ",*a" + a + ",*a" + a + ",*a" + a + ",*a" + a + ",*a" + a + ",*a" + a + ",*a" + a + ",*a" + a + "]\n"
	}
	return text
}

func TestRefusesFilesThatAreNotRegular(t *testing.T) {
	dir := write(t, nil)
	pipe := filepath.Join(dir, "pipe.yaml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	go func() { // ends each attempt to read the pipe
		for {
			writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err != nil {
				return
			}
			_ = writer.Close()
		}
	}()
	_, err := Folder(pipe)
	require.ErrorContains(t, err, `"pipe.yaml" is not a regular file`)
	_, err = Folder(dir)
	require.ErrorContains(t, err, `"pipe.yaml" is not a regular file`)
	linked := write(t, nil)
	require.NoError(t, os.Symlink(pipe, filepath.Join(linked, "link.yaml")))
	_, err = Folder(linked)
	require.ErrorContains(t, err, `"link.yaml" is not a regular file`)
}
