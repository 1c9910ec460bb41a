package preflight

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// object is a step of a kind named "x"; the rest is YAML.
func object(t *testing.T, apiVersion, kind, namespace, rest string) step.Step {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, yaml.Unmarshal([]byte(rest), &obj.Object))
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName("x")
	return step.Step{Object: obj, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Namespace: "ns"}}}
}

func rbacObject(t *testing.T, kind, namespace, rest string) step.Step {
	return object(t, "rbac.authorization.k8s.io/v1", kind, namespace, rest)
}

func may(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func onlyNeeds(t *testing.T, live rbac.RoleRules, steps ...step.Step) []Need {
	t.Helper()
	needs, err := NeedsOf(steps, live, func(step.Step) bool { return false })
	require.NoError(t, err)
	return needs
}

func TestNeedsOfEachKind(t *testing.T) {
	const csv = "spec: {install: {strategy: deployment, spec: {deployments: [{name: op}]}}}"
	const rules = "rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"
	const toRole = "roleRef: {kind: Role, name: r}"
	pods := []rbacv1.PolicyRule{may("get", "", "pods")}
	for _, row := range []struct {
		name string
		step step.Step
		// verbs are those on the object itself; more is what its content needs.
		verbs []string
		more  []Need
	}{
		{"a namespaced object", object(t, "v1", "ConfigMap", "ns", ""), []string{"create", "patch", "get"}, nil},
		{"a CRD is read by self", object(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", ""), []string{"create", "patch"}, nil},
		{"a CSV's Deployments", object(t, "operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns", csv), []string{"create", "patch", "get"}, []Need{{
			Namespace: "ns", Cause: "install and remove Deployment ns/op",
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "create", "patch", "delete"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{"op"}}},
		}}},
		{"a Role's rules, unless escalate", rbacObject(t, "Role", "ns", rules), []string{"create", "patch", "get"}, []Need{{
			Namespace: "ns", Rules: pods, Cause: "grant it through Role ns/x", Unless: []rbacv1.PolicyRule{may("escalate", rbacGroup, "roles", "x")},
		}}},
		{"a ClusterRole's rules, in the whole cluster", rbacObject(t, "ClusterRole", "", rules), []string{"create", "patch", "get", "delete"}, []Need{{
			Rules: pods, Cause: "grant it through ClusterRole x", Unless: []rbacv1.PolicyRule{may("escalate", rbacGroup, "clusterroles", "x")},
		}}},
		{"58 an aggregated ClusterRole is everything", rbacObject(t, "ClusterRole", "", "aggregationRule: {clusterRoleSelectors: [{}]}"), []string{"create", "patch", "get", "delete"}, []Need{{
			Rules: []rbacv1.PolicyRule{may("*", "*", "*"), {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}, Cause: "grant it through ClusterRole x", Unless: []rbacv1.PolicyRule{may("escalate", rbacGroup, "clusterroles", "x")},
		}}},
		{"an aggregation of nothing", rbacObject(t, "ClusterRole", "", "aggregationRule: {}"), []string{"create", "patch", "get", "delete"}, nil},
		{"36 a Role without rules", rbacObject(t, "Role", "ns", ""), []string{"create", "patch", "get"}, nil},
		{"57 a binding of a role that does not exist", rbacObject(t, "RoleBinding", "ns", toRole), []string{"create", "patch", "get"}, []Need{{
			Namespace: "ns", Rules: []rbacv1.PolicyRule{may("bind", rbacGroup, "roles", "r")}, Unless: []rbacv1.PolicyRule{may("bind", rbacGroup, "roles", "r")},
			Cause: `bind Role "r", which does not exist, through RoleBinding ns/x`,
		}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			needs := onlyNeeds(t, nothingLive, row.step)
			require.Equal(t, row.verbs, needs[0].Rules[0].Verbs)
			require.Equal(t, []string{"x"}, needs[0].Rules[0].ResourceNames)
			require.Equal(t, row.step.Object.GetNamespace(), needs[0].Namespace)
			require.ElementsMatch(t, row.more, needs[1:])
		})
	}
}

func TestABindingNeedsTheRulesOfItsRole(t *testing.T) {
	pods, nodes := may("get", "", "pods"), may("get", "", "nodes")
	live := func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
		if ref.Name == "live" && (ref.Kind == "ClusterRole" || namespace == "ns") {
			return []rbacv1.PolicyRule{nodes}, nil
		}
		return nothingLive(ref, namespace)
	}
	const podsYAML = "rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"
	planned := []step.Step{rbacObject(t, "Role", "ns", podsYAML), rbacObject(t, "ClusterRole", "", podsYAML)}
	for _, row := range []struct {
		name, kind, namespace, ref string
		want                       []rbacv1.PolicyRule
		unless                     rbacv1.PolicyRule
	}{
		{"a planned Role", "RoleBinding", "ns", "kind: Role, name: x", []rbacv1.PolicyRule{pods}, may("bind", rbacGroup, "roles", "x")},
		{"55 a planned ClusterRole in a namespace", "RoleBinding", "ns", "kind: ClusterRole, name: x", []rbacv1.PolicyRule{pods}, may("bind", rbacGroup, "clusterroles", "x")},
		{"56 a planned ClusterRole in the cluster", "ClusterRoleBinding", "", "kind: ClusterRole, name: x", []rbacv1.PolicyRule{pods}, may("bind", rbacGroup, "clusterroles", "x")},
		{"a live Role", "RoleBinding", "ns", "kind: Role, name: live", []rbacv1.PolicyRule{nodes}, may("bind", rbacGroup, "roles", "live")},
		{"a live ClusterRole", "RoleBinding", "ns", "kind: ClusterRole, name: live", []rbacv1.PolicyRule{nodes}, may("bind", rbacGroup, "clusterroles", "live")},
		{"a Role planned for another namespace", "RoleBinding", "other", "kind: Role, name: x", []rbacv1.PolicyRule{may("bind", rbacGroup, "roles", "x")}, may("bind", rbacGroup, "roles", "x")},
	} {
		t.Run(row.name, func(t *testing.T) {
			needs := onlyNeeds(t, live, append(planned, rbacObject(t, row.kind, row.namespace, "roleRef: {"+row.ref+"}"))...)
			last := needs[len(needs)-1]
			require.Equal(t, row.namespace, last.Namespace)
			require.Equal(t, row.want, last.Rules)
			require.Equal(t, []rbacv1.PolicyRule{row.unless}, last.Unless)
		})
	}
}

func TestNeedsOfWhatCannotBeReadIsAnError(t *testing.T) {
	broken := func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) { return nil, errors.New("no cache") }
	never := func(step.Step) bool { return false }
	_, err := NeedsOf([]step.Step{rbacObject(t, "RoleBinding", "ns", "roleRef: {kind: Role, name: r}")}, broken, never)
	require.EqualError(t, err, "RoleBinding ns/x: no cache")
	_, err = NeedsOf([]step.Step{rbacObject(t, "Role", "ns", "rules: 1")}, nothingLive, never)
	require.ErrorContains(t, err, "decode Role ns/x")
	_, err = NeedsOf([]step.Step{rbacObject(t, "RoleBinding", "ns", "roleRef: 1")}, nothingLive, never)
	require.ErrorContains(t, err, "decode RoleBinding ns/x")
	_, err = NeedsOf([]step.Step{rbacObject(t, "RoleBinding", "ns", "roleRef: {kind: Robot}")}, nothingLive, never)
	require.EqualError(t, err, `RoleBinding ns/x: a binding in namespace ns cannot name a role of kind "Robot"`)
}

func TestStepsThatAreSkippedNeedNothing(t *testing.T) {
	crd := object(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "")
	needs, err := NeedsOf([]step.Step{crd}, nothingLive, step.Step.IsCRD)
	require.NoError(t, err)
	require.Empty(t, needs)
}

func TestEscalateAndBindExcuse(t *testing.T) {
	account := types.NamespacedName{Namespace: "ns", Name: "installer"}
	need := Need{Namespace: "ns", Rules: []rbacv1.PolicyRule{may("get", "", "pods")}, Unless: []rbacv1.PolicyRule{may("escalate", rbacGroup, "roles", "x")}}
	for _, row := range []struct {
		name  string
		held  rbacv1.PolicyRule
		empty bool
	}{
		{"nothing of use", may("get", "", "nodes"), false},
		{"52 writing roles", may("*", rbacGroup, "rolebindings"), false},
		{"the rules themselves", may("get", "", "pods"), true},
		{"53 escalate", may("escalate", rbacGroup, "roles"), true},
		{"escalate of this role", may("escalate", rbacGroup, "roles", "x"), true},
		{"escalate of another role", may("escalate", rbacGroup, "roles", "y"), false},
		{"all verbs include escalate", may("*", rbacGroup, "roles"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			report, err := Evaluate(account, []Need{need}, func(string) ([]rbacv1.PolicyRule, error) { return []rbacv1.PolicyRule{row.held}, nil })
			require.NoError(t, err)
			require.Equal(t, row.empty, report.Empty())
		})
	}
}

func TestEvaluateAsksOnceForEachScope(t *testing.T) {
	asked := map[string]int{}
	held := func(namespace string) ([]rbacv1.PolicyRule, error) {
		asked[namespace]++
		return nil, nil
	}
	need := func(namespace string) Need {
		return Need{Namespace: namespace, Rules: []rbacv1.PolicyRule{may("get", "", "pods")}, Cause: "c"}
	}
	report, err := Evaluate(types.NamespacedName{}, []Need{need("a"), need(rbac.ClusterScope), need("a")}, held)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1, "": 1}, asked)
	require.Len(t, report.Findings, 3)
	require.Equal(t, 2, report.Count(), "the same rule is missing once in a scope")
	require.Equal(t, rbac.ClusterScope, report.Scopes()[0].Namespace)

	_, err = Evaluate(types.NamespacedName{Namespace: "n", Name: "a"}, []Need{need("a")}, func(string) ([]rbacv1.PolicyRule, error) { return nil, errors.New("no cache") })
	require.EqualError(t, err, "rules held by ServiceAccount n/a: no cache")
}
