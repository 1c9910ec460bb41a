package plan

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/step"
)

func objects(t *testing.T, texts ...string) []step.Step {
	t.Helper()
	var out []step.Step
	for _, text := range texts {
		obj := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
		obj.SetAPIVersion("rbac.authorization.k8s.io/v1")
		out = append(out, step.Step{Object: obj})
	}
	return out
}

// readable converts the permissions to lines, keyed by subject and scope, so that failures are readable.
func readable(all []grantee) map[string]map[string][]string {
	out := map[string]map[string][]string{}
	for _, g := range all {
		out[g.subject] = map[string][]string{}
		for _, s := range g.scopes {
			out[g.subject][s.where()] = s.lines()
		}
	}
	return out
}

const operator = "subjects: [{kind: ServiceAccount, namespace: ns, name: op}]"

func TestListsPermissionsBySubject(t *testing.T) {
	got, err := permissionsOf(objects(t,
		`{kind: Role, metadata: {namespace: ns, name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {apiGroups: [""], resources: [pods], verbs: [list]}]}`,
		`{kind: Role, metadata: {namespace: other, name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [list, get]}]}`,
		`{kind: Role, metadata: {namespace: ns, name: idle}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`,
		`{kind: ClusterRole, metadata: {name: c}, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}`,
		`{kind: ClusterRole, metadata: {name: gathers}, aggregationRule: {clusterRoleSelectors: [{}]}}`,
		`{kind: RoleBinding, metadata: {namespace: ns, name: a}, roleRef: {kind: Role, name: a}, `+operator+`}`,
		`{kind: RoleBinding, metadata: {namespace: other, name: a}, roleRef: {kind: Role, name: a}, `+operator+`}`,
		`{kind: RoleBinding, metadata: {namespace: third, name: v}, roleRef: {kind: ClusterRole, name: view}, `+operator+`}`,
		`{kind: ClusterRoleBinding, metadata: {name: c}, roleRef: {kind: ClusterRole, name: c}, `+operator+`}`,
		`{kind: ClusterRoleBinding, metadata: {name: g}, roleRef: {kind: ClusterRole, name: gathers}, subjects: [{kind: Group, name: "system:authenticated"}]}`,
		`{kind: RoleBinding, metadata: {namespace: ns, name: own}, roleRef: {kind: Role, name: missing}, subjects: [{kind: ServiceAccount, name: other}, {kind: User, name: eve}]}`,
	))
	require.NoError(t, err)
	pods := []string{`{apiGroups: [""], resources: ["pods"], verbs: ["get", "list"]}`}
	require.Equal(t, map[string]map[string][]string{
		"ServiceAccount ns/op": {
			"cluster-wide":                        {`{apiGroups: [""], resources: ["nodes"], verbs: ["get"]}`},
			"in each of the namespaces ns, other": pods,
			"in namespace third":                  {"all rules of ClusterRole view, which is not part of the plan"},
		},
		"ServiceAccount ns/other":    {"in namespace ns": {"all rules of Role ns/missing, which is not part of the plan"}},
		"User eve":                   {"in namespace ns": {"all rules of Role ns/missing, which is not part of the plan"}},
		"Group system:authenticated": {"cluster-wide": {"all rules of ClusterRole gathers, which aggregates the rules of other ClusterRoles"}},
	}, readable(got.grantees))
	require.Equal(t, map[string]map[string][]string{
		"Role ns/idle": {"in namespace ns": {`{apiGroups: [""], resources: ["secrets"], verbs: ["get"]}`}},
	}, readable(got.unbound))
	require.Empty(t, got.warnings())
}

func TestWarnsAboutClusterAdmin(t *testing.T) {
	star := `{kind: ClusterRole, metadata: {name: c}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}`
	for want, list := range map[string][]string{
		"every verb on every resource": {star, `{kind: ClusterRoleBinding, metadata: {name: c}, roleRef: {kind: ClusterRole, name: c}, ` + operator + `}`},
		"ClusterRole cluster-admin":    {`{kind: ClusterRoleBinding, metadata: {name: c}, roleRef: {kind: ClusterRole, name: cluster-admin}, ` + operator + `}`},
	} {
		got, err := permissionsOf(objects(t, list...))
		require.NoError(t, err)
		require.Equal(t, []string{"ServiceAccount ns/op gets permissions that amount to cluster-admin: " + want + "."}, got.warnings())
	}
	bounded, err := permissionsOf(objects(t, star, `{kind: RoleBinding, metadata: {namespace: ns, name: c}, roleRef: {kind: ClusterRole, name: c}, `+operator+`}`))
	require.NoError(t, err)
	require.Empty(t, bounded.warnings())
}

// A ClusterRole in the cluster can aggregate the rules of a role that the plan does not bind.
func TestShowsUnboundRoles(t *testing.T) {
	p, err := permissionsOf(objects(t, `{kind: ClusterRole, metadata: {name: c}, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}`))
	require.NoError(t, err)
	var b bytes.Buffer
	writePermissions(&b, p)
	require.Equal(t, "\nPermissions that the plan grants:\n  not bound by the plan: ClusterRole c\n    cluster-wide\n"+
		`      {apiGroups: [""], resources: ["nodes"], verbs: ["get"]}`+"\n", b.String())
}
