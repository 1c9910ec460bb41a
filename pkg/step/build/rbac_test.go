package build

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

func may(verb, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}
}

func seeNamespaces() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}}
}

// csvOf returns a CSV that requests the given rules, all for one ServiceAccount.
func csvOf(account string, namespaced, cluster []rbacv1.PolicyRule) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Name = "op.v1"
	spec := &csv.Spec.InstallStrategy.StrategySpec
	if namespaced != nil {
		spec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: namespaced}}
	}
	if cluster != nil {
		spec.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: cluster}}
	}
	return csv
}

func TestGrantsFollowTheTargets(t *testing.T) {
	pods, nodes := []rbacv1.PolicyRule{may("get", "pods")}, []rbacv1.PolicyRule{may("get", "nodes")}
	in := func(namespace string, rules ...rbacv1.PolicyRule) Grant { return Grant{namespace, "op", rules} }
	for _, row := range []struct {
		name                string
		namespaced, cluster []rbacv1.PolicyRule
		targets             []string
		want                []Grant
	}{
		{"the operator's own namespace", pods, nil, []string{"own"}, []Grant{in("own", pods...)}},
		{"the operator's own namespace is always included", pods, nil, []string{"b", "a"}, []Grant{in("a", pods...), in("b", pods...), in("own", pods...)}},
		{"all namespaces become the whole cluster, with permission to read namespaces", pods, nil, []string{""}, []Grant{in("", pods[0], seeNamespaces())}},
		{"cluster permissions apply cluster-wide", nil, nodes, []string{"own"}, []Grant{in("", nodes...)}},
		{"cluster permissions do not need permission to read namespaces", nil, nodes, []string{""}, []Grant{in("", nodes...)}},
		{"permissions of both kinds", pods, nodes, []string{"own"}, []Grant{in("own", pods...), in("", nodes...)}},
		{"permissions of both kinds cluster-wide are merged", pods, nodes, []string{""}, []Grant{in("", nodes[0], pods[0], seeNamespaces())}},
		{"no grant without rules", []rbacv1.PolicyRule{}, nil, []string{"own"}, nil},
		{"no permissions", nil, nil, []string{""}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, Grants(csvOf("op", row.namespaced, row.cluster), "own", row.targets))
		})
	}
}

func owner(namespace string) ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: namespace}, CSV: "op.v1"}
}

func render(t *testing.T, csv *operatorsv1alpha1.ClusterServiceVersion, namespace string, targets ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := OperatorRBAC(csv, owner(namespace), targets)
	require.NoError(t, err)
	return objects
}

func TestOperatorRBACRendersAccountsRolesAndBindings(t *testing.T) {
	objects := render(t, csvOf("op", []rbacv1.PolicyRule{may("get", "pods")}, []rbacv1.PolicyRule{may("get", "nodes")}), "own", "other")
	var got []string
	for _, obj := range objects {
		got = append(got, obj.GetKind()+" "+obj.GetNamespace())
		require.Equal(t, "op.v1", obj.GetLabels()[names.LabelOwner])
		require.Equal(t, "own", obj.GetLabels()[names.LabelOwnerNamespace])
		require.True(t, owner("own").Marks(obj))
		require.NotContains(t, obj.Object["metadata"], "creationTimestamp")
	}
	require.Equal(t, []string{
		"ServiceAccount own", "Role other", "Role own", "ClusterRole ", "RoleBinding other", "RoleBinding own", "ClusterRoleBinding ",
	}, got)
	for i, role := range objects[1:4] {
		binding := objects[i+4]
		require.Equal(t, role.GetName(), binding.GetName())
		require.Equal(t, map[string]any{"apiGroup": rbacv1.GroupName, "kind": role.GetKind(), "name": role.GetName()}, binding.Object["roleRef"])
		require.Equal(t, []any{map[string]any{"kind": "ServiceAccount", "name": "op", "namespace": "own"}}, binding.Object["subjects"])
		require.NotEmpty(t, role.GetLabels()[names.LabelPermissionsHash])
	}
}

func TestTheDefaultServiceAccountIsBoundButNotCreated(t *testing.T) {
	objects := render(t, csvOf("default", []rbacv1.PolicyRule{may("get", "pods")}, nil), "own", "own")
	require.Len(t, objects, 2)
	require.Equal(t, "Role", objects[0].GetKind())
	require.Equal(t, "RoleBinding", objects[1].GetKind())
}

func TestRoleNamesAreStableShortAndDifferent(t *testing.T) {
	long := csvOf(strings.Repeat("s", 100), []rbacv1.PolicyRule{may("get", "pods")}, []rbacv1.PolicyRule{may("get", "nodes")})
	long.Name = strings.Repeat("n", 200)
	names := func(csv *operatorsv1alpha1.ClusterServiceVersion, namespace string, targets ...string) []string {
		var out []string
		for _, obj := range render(t, csv, namespace, targets...) {
			if strings.HasSuffix(obj.GetKind(), "Role") {
				require.LessOrEqual(t, len(obj.GetName()), 63)
				out = append(out, obj.GetName())
			}
		}
		return out
	}
	first := names(long, "own", "own", "other")
	require.Equal(t, first, names(long, "own", "other", "own"))

	seen := map[string]string{}
	small := csvOf("op", []rbacv1.PolicyRule{may("get", "pods")}, []rbacv1.PolicyRule{may("get", "nodes")})
	changed := csvOf("op", []rbacv1.PolicyRule{may("list", "pods")}, []rbacv1.PolicyRule{may("list", "nodes")})
	otherAccount := csvOf("op2", []rbacv1.PolicyRule{may("get", "pods")}, []rbacv1.PolicyRule{may("get", "nodes")})
	for variant, list := range map[string][]string{
		"base":            names(small, "own", "own", "b"),
		"other namespace": names(small, "own2", "own2", "b"),
		"other rules":     names(changed, "own", "own", "b"),
		"other account":   names(otherAccount, "own", "own", "b"),
		"long":            first,
	} {
		require.Len(t, list, 3, variant)
		for _, name := range list {
			require.NotContains(t, seen, name, "%s and %s", variant, seen[name])
			seen[name] = variant
		}
	}
	require.True(t, strings.HasPrefix(names(small, "own", "own")[0], "op.v1-op-"), "<csv>-<serviceaccount>-<hash>")
}

// A caller that passes no RuleChecker must not be told that nothing is missing.
func TestPermissionsAreNotSkippedWithoutARuleChecker(t *testing.T) {
	csv := csvOf("op", []rbacv1.PolicyRule{may("get", "pods")}, nil)
	scope := Scope{Namespace: "own", Targets: []string{"own"}}
	require.Panics(t, func() { _, _ = RBACForClusterServiceVersion(csv, scope, nil) })
	excess, err := RBACForClusterServiceVersion(csv, scope, Unchecked{})
	require.NoError(t, err)
	require.Empty(t, excess)
}

// The cost of checking a plan grows with both the rules and the namespaces in which they apply.
func TestRulesTimesTargetsAreLimited(t *testing.T) {
	var targets []string
	for i := range 1000 {
		targets = append(targets, fmt.Sprint("t", i))
	}
	wide := may("get", "pods")
	for i := range 600 {
		wide.Resources = append(wide.Resources, fmt.Sprint("r", i))
	}
	for name, csv := range map[string]*operatorsv1alpha1.ClusterServiceVersion{
		"permissions": csvOf("sa", []rbacv1.PolicyRule{wide}, nil), "rules of webhooks": hooked(1, wide.Resources...), "webhooks": hooked(20, "pods"),
	} {
		require.ErrorContains(t, CheckScopes(csv, "t0", targets), "with fewer target namespaces", name)
		require.NoError(t, CheckScopes(csv, "t0", targets[:50]), name)
	}
	many := hooked(25, wide.Resources...)
	require.ErrorContains(t, CheckScopes(many, "t0", targets[:50]), "with fewer target namespaces", "each webhook alone is below the limits")
}

// Each role fits, and so does the number of combinations.
func TestRolesTimesTargetsAreLimited(t *testing.T) {
	var targets []string
	for i := range 400 {
		targets = append(targets, fmt.Sprint("t", i))
	}
	named := may("get", "pods")
	for i := range 1_000 {
		named.ResourceNames = append(named.ResourceNames, fmt.Sprint(strings.Repeat("n", 200), i))
	}
	csv := csvOf("op", []rbacv1.PolicyRule{named}, nil)
	require.ErrorContains(t, CheckScopes(csv, "t0", targets), "the roles in all target namespaces would need at least")
	require.NoError(t, CheckScopes(csv, "t0", targets[:70]))
	require.NoError(t, CheckScopes(csv, "t0", []string{""}))

	for i := range 200 {
		csv.Spec.InstallStrategy.StrategySpec.Permissions = append(csv.Spec.InstallStrategy.StrategySpec.Permissions,
			operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: fmt.Sprint("sa", i), Rules: []rbacv1.PolicyRule{may("get", "pods")}})
	}
	csv.Spec.InstallStrategy.StrategySpec.Permissions[0].Rules = nil
	require.ErrorContains(t, CheckScopes(csv, "t0", targets), "its permissions need 80000 roles in the 400 target namespaces; at most 5000 are allowed")
	require.NoError(t, CheckScopes(csv, "t0", targets[:20]))
}

// hooked returns a CSV with the given number of webhooks for these resources.
func hooked(webhooks int, resources ...string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := csvOf("sa", nil, nil)
	for range webhooks {
		csv.Spec.WebhookDefinitions = append(csv.Spec.WebhookDefinitions, operatorsv1alpha1.WebhookDescription{
			Type: operatorsv1alpha1.ValidatingAdmissionWebhook,
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"g"}, Resources: resources}}},
		})
	}
	return csv
}

// An operator's roles in a thousand namespaces take as much memory as one.
func TestRolesInSeveralNamespacesShareTheirRules(t *testing.T) {
	csv := csvOf("op", []rbacv1.PolicyRule{may("get", "pods")}, []rbacv1.PolicyRule{may("get", "nodes")})
	objects, err := OperatorRBAC(csv, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "own"}, CSV: "op.v1"}, []string{"own", "a", "b"})
	require.NoError(t, err)
	first := map[string][]*any{}
	for _, obj := range objects {
		if rules, ok := obj.Object["rules"].([]any); ok {
			first[obj.GetKind()] = append(first[obj.GetKind()], &rules[0])
		}
	}
	require.Len(t, first["Role"], 3)
	require.Same(t, first["Role"][0], first["Role"][1])
	require.Same(t, first["Role"][0], first["Role"][2])
	require.Len(t, first["ClusterRole"], 1)
	require.NotSame(t, first["Role"][0], first["ClusterRole"][0])
}

// Roles are rendered, so the size of the bundle does not contain them.
func TestRolesCountForEachNamespace(t *testing.T) {
	var rules []rbacv1.PolicyRule
	for i := range 1000 {
		rules = append(rules, may("get", fmt.Sprint("r", i)))
	}
	csv := csvOf("op", rules, nil)
	one, ten := CostOfRoles(csv, "own", []string{"own"}), CostOfRoles(csv, "own", []string{"own", "1", "2", "3", "4", "5", "6", "7", "8", "9"})
	require.Greater(t, one, int64(4*100*1000))
	require.InEpsilon(t, 10*one, ten, 0.01)
}
