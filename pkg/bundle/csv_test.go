package bundle_test

import (
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

type edit = func(*operatorsv1alpha1.NamedInstallStrategy)

// csv returns a CSV with a deployment "op", modified by the edits.
func csv(edits ...edit) *operatorsv1alpha1.ClusterServiceVersion {
	out := &operatorsv1alpha1.ClusterServiceVersion{}
	out.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	deployment("op", "op")(&out.Spec.InstallStrategy)
	for _, e := range edits {
		e(&out.Spec.InstallStrategy)
	}
	return out
}

func deployment(name, account string) edit {
	return func(s *operatorsv1alpha1.NamedInstallStrategy) {
		d := operatorsv1alpha1.StrategyDeploymentSpec{Name: name}
		d.Spec.Template.Spec.ServiceAccountName = account
		s.StrategySpec.DeploymentSpecs = append(s.StrategySpec.DeploymentSpecs, d)
	}
}

// deprecated returns an edit that sets the deprecated serviceAccount field in the first deployment's Pod template.
func deprecated(account string) edit {
	return func(s *operatorsv1alpha1.NamedInstallStrategy) {
		s.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.DeprecatedServiceAccount = account
	}
}

func permission(account string, rules ...rbacv1.PolicyRule) edit {
	return func(s *operatorsv1alpha1.NamedInstallStrategy) {
		s.StrategySpec.Permissions = append(s.StrategySpec.Permissions,
			operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: rules})
	}
}

func clusterPermission(account string, rules ...rbacv1.PolicyRule) edit {
	return func(s *operatorsv1alpha1.NamedInstallStrategy) {
		s.StrategySpec.ClusterPermissions = append(s.StrategySpec.ClusterPermissions,
			operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: rules})
	}
}

func may(verb, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}
}

func TestValidateCSV(t *testing.T) {
	// Two rules like this one reach exactly the limit on combinations (rbac.MaxAtoms).
	huge := may("get", "secrets")
	huge.Verbs = slices.Repeat([]string{"get"}, rbac.MaxAtoms/2)
	named := may("get", "secrets")
	named.ResourceNames = slices.Repeat([]string{"a"}, bundle.MaxResourceNames)
	tooNamed := may("get", "secrets")
	tooNamed.ResourceNames = slices.Repeat([]string{"a"}, bundle.MaxResourceNames+1)
	many := slices.Repeat([]rbacv1.PolicyRule{may("get", "pods")}, bundle.MaxRules)
	word := strings.Repeat("v", message.MaxWord)
	long := may(word, "")
	long.Resources = slices.Repeat([]string{word}, bundle.MaxRuleBytes/message.MaxWord-1)
	url := rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}
	owns := csv()
	owns.Spec.CustomResourceDefinitions.Owned = make([]operatorsv1alpha1.CRDDescription, bundle.MaxOwned+1)
	serves, requires, requiresServed := csv(), csv(), csv()
	serves.Spec.APIServiceDefinitions.Owned = make([]operatorsv1alpha1.APIServiceDescription, bundle.MaxOwned+1)
	requires.Spec.CustomResourceDefinitions.Required = make([]operatorsv1alpha1.CRDDescription, bundle.MaxOwned+1)
	requiresServed.Spec.APIServiceDefinitions.Required = make([]operatorsv1alpha1.APIServiceDescription, bundle.MaxOwned+1)
	for _, row := range []struct {
		name string
		csv  *operatorsv1alpha1.ClusterServiceVersion
		want []string
	}{
		{"a valid CSV", csv(permission("op", may("get", "pods")), clusterPermission("op", url)), nil},
		{"no ServiceAccount at all", csv(deployment("b", "")), nil},
		{"too many APIs", owns, []string{"spec.customresourcedefinitions.owned of the CSV has more than 2000 entries"}},
		{"too many APIs of APIServices", serves, []string{"spec.apiservicedefinitions.owned of the CSV has more than 2000 entries"}},
		{"too many required APIs", requires, []string{"spec.customresourcedefinitions.required of the CSV has more than 2000 entries"}},
		{"too many required APIs of APIServices", requiresServed, []string{"spec.apiservicedefinitions.required of the CSV has more than 2000 entries"}},
		{"no rules", csv(permission("default")), nil},
		{"too many permissions without rules", csv(func(s *operatorsv1alpha1.NamedInstallStrategy) {
			s.StrategySpec.Permissions = make([]operatorsv1alpha1.StrategyDeploymentPermissions, bundle.MaxPermissions+1)
		}), []string{"permissions and clusterPermissions: a list has more than 10000 entries"}},
		{"an unknown strategy", csv(func(s *operatorsv1alpha1.NamedInstallStrategy) { s.StrategyName = "helm" }), []string{`install strategy "helm" is not supported`}},
		{"no deployments", csv(func(s *operatorsv1alpha1.NamedInstallStrategy) { s.StrategySpec.DeploymentSpecs = nil }), []string{"has no deployments"}},
		{"an invalid deployment name", csv(deployment("../x", "")), []string{`deployment name "../x"`}},
		{"a deployment without a name", csv(deployment("", "")), []string{`deployment name ""`}},
		{"two deployments with the same name", csv(deployment("op", "")), []string{`two deployments are named "op"`}},
		{"an invalid ServiceAccount of a deployment", csv(deployment("b", "A/B")), []string{`deployment "b": serviceAccountName "A/B"`}},
		{"a path in the deprecated field", csv(deprecated("../x")), []string{`deployment "op": serviceAccountName "../x"`}},
		{"a long name in the deprecated field", csv(deprecated(strings.Repeat("a", 300))), []string{`deployment "op": serviceAccountName "aaa`}},
		{"a valid deprecated field", csv(deprecated("op")), nil},
		{"a permission without a ServiceAccount", csv(permission("")), []string{`permissions[0]: serviceAccountName ""`}},
		{"URLs in namespaced permissions", csv(permission("op", url)), []string{"permissions[0]: rule", "only for the whole cluster"}},
		{"the maximum number of combinations", csv(permission("op", huge), clusterPermission("op", huge)), nil},
		{"too many combinations", csv(permission("op", huge), clusterPermission("op", huge, may("get", "pods"))), []string{"permissions and clusterPermissions", rbac.ErrTooLarge.Error()}},
		{"the maximum number of resourceNames", csv(permission("op", named, named)), nil},
		{"too many resourceNames", csv(permission("op", named), permission("op", tooNamed)), []string{"rule 2 has 1001 resourceNames; at most 1000 are allowed"}},
		{"the maximum number of rules", csv(permission("op", many...)), nil},
		{"too many rules", csv(permission("op", many...), clusterPermission("op", may("get", "pods"))), []string{"too many rules (10001); at most 10000 are allowed"}},
		{"the maximum length of rules", csv(permission("op", long)), nil},
		{"rules that are too long", csv(permission("op", long, may("get", "pods"))), []string{"the rules have 524295 bytes; at most 524288 are allowed"}},
		{"a long word", csv(permission("op", may("get", strings.Repeat("p", 600)))), []string{"spec.install.spec.permissions[0].rules[0].resources[0]", `has 600 bytes; at most 512 are allowed`}},
		{"several problems", csv(permission("op", rbacv1.PolicyRule{}), clusterPermission("A", rbacv1.PolicyRule{Verbs: []string{"get"}})),
			[]string{"permissions[0]: rule", "has no verbs", `clusterPermissions[0]: serviceAccountName "A"`, "has no apiGroups"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := bundle.ValidateCSV(row.csv)
			if row.want == nil {
				require.NoError(t, err)
			}
			for _, want := range row.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestGroupsPermissionsByServiceAccount(t *testing.T) {
	got := bundle.Permissions(csv(
		permission("z", may("get", "pods")), clusterPermission("a", may("get", "nodes")),
		permission("z", may("list", "pods")), clusterPermission("z", may("list", "nodes")), permission("empty"),
	))
	require.Equal(t, []bundle.Rules{
		{ServiceAccount: "a", Cluster: []rbacv1.PolicyRule{may("get", "nodes")}},
		{ServiceAccount: "empty"},
		{ServiceAccount: "z", Namespaced: []rbacv1.PolicyRule{may("get", "pods"), may("list", "pods")}, Cluster: []rbacv1.PolicyRule{may("list", "nodes")}},
	}, got)
	require.Empty(t, bundle.Permissions(csv()))
}
