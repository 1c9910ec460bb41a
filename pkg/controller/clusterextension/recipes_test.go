package clusterextension_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/preflight"
)

// recipesPage is the section of the page that says what OLM v1's recipes are missing.
const recipesPage, recipesHeading = "../../../docs/tasks/from-olm-v1.md", "\n## RBAC for OLM v1\n"

// recipeOf returns the row of the page about a recipe: the rules that are missing, without names and namespaces.
func recipeOf(t *testing.T, recipe string) []string {
	t.Helper()
	page, err := os.ReadFile(recipesPage)
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), recipesHeading)
	require.True(t, ok)
	row := regexp.MustCompile(`(?m)^\| ` + recipe + `[^|]*\| ([^|]*) \|`).FindStringSubmatch(section)
	require.NotNil(t, row, recipe)
	var rules []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
		rules = append(rules, m[1])
	}
	return rules
}

// missingRules returns the rules in a message in the form of OLM v1, without names and namespaces.
func missingRules(message string) []string {
	var rules []string
	for _, line := range regexp.MustCompile(`(?m)^ +Namespace:"[^"]*" (.*)$`).FindAllStringSubmatch(message, -1) {
		rules = append(rules, regexp.MustCompile(` ResourceNames:\[[^]]*\]`).ReplaceAllString(line[1], ""))
	}
	return rules
}

// The RBAC that OLM v1 told users to grant a ServiceAccount suffices, except for what the page lists. With these rules, it does.
func TestRecipesForOLMv1(t *testing.T) {
	t.Parallel()
	for _, recipe := range []string{"Helm", "boxcutter", "the guide"} {
		t.Run(recipe, func(t *testing.T) {
			t.Parallel()
			w := givenRecipe(t, recipe)
			if want := recipeOf(t, recipe); len(want) > 0 {
				w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
				require.ElementsMatch(t, want, missingRules(w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)))
				w.grant("rest", rulesOf(t, want)...)
			}
			w.awaitInstalled("1.0.0")
			w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)
		})
	}
}

// The page says which parts of the recipes are not needed: Remit writes by name, and needs neither update nor delete. It watches
// only Deployments, and lists and watches nothing else that it installs.
func TestRemitNeedsLessThanTheRecipesForOLMv1(t *testing.T) {
	t.Parallel()
	w := givenRecipe(t, "only the operator")
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	grant, rules := w.report(preflight.FileGrant), 0
	w.apply(grant)
	w.awaitInstalled("1.0.0")
	for doc := range strings.SplitSeq(grant, "\n---\n") {
		role := rbacv1.ClusterRole{} // a Role has the same rules
		require.NoError(t, yaml.Unmarshal([]byte(doc), &role))
		for _, rule := range role.Rules {
			rules++
			if !slices.Contains(rule.Resources, "namespaces") {
				require.NotEmpty(t, rule.ResourceNames, rule)
			}
			require.NotContains(t, rule.Verbs, "update", rule)
			require.NotContains(t, rule.Verbs, "delete", rule)
			require.False(t, slices.Contains(rule.Verbs, "watch") && !slices.Contains(rule.Resources, "deployments") && !slices.Contains(rule.Resources, "namespaces"), rule)
			require.NotContains(t, rule.APIGroups, "olm.operatorframework.io", rule)
		}
	}
	require.Greater(t, rules, 3)
}

// givenRecipe installs a bundle as an enrolled ServiceAccount with the permissions of a recipe.
func givenRecipe(t *testing.T, recipe string) *world {
	t.Helper()
	text, err := os.ReadFile("testdata/olmv1-recipes.yaml")
	require.NoError(t, err)
	w := given(t)
	recipes := map[string][]rbacv1.PolicyRule{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(text), "NAME", w.name)), &recipes))
	operator, err := json.Marshal(recipes["operator"])
	require.NoError(t, err)
	w.publish("1.0.0", "", strings.NewReplacer(
		"clusterPermissions: [{serviceAccountName: op, rules: [{apiGroups: [NAME.example.com], resources: [things], verbs: [get, list, watch]}]}]", "clusterPermissions: []",
		`rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]`, "rules: "+string(operator),
	).Replace(csv), crd, configMap, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: op}, spec: {podSelector: {}}}`)

	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "installer"}})
	w.grant("recipe", append(recipes[recipe], recipes["operator"]...)...)
	w.install(func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" })
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	w.apply(w.report(clusterextension.FileEnrollment))
	return w
}

// rulesOf parses rules in the form of OLM v1.
func rulesOf(t *testing.T, lines []string) (rules []rbacv1.PolicyRule) {
	t.Helper()
	list := regexp.MustCompile(`(\w+):\[([^]]*)\]`)
	for _, line := range lines {
		fields := map[string][]string{}
		for _, m := range list.FindAllStringSubmatch(line, -1) {
			fields[m[1]] = strings.Split(m[2], ",")
		}
		rules = append(rules, rbacv1.PolicyRule{APIGroups: fields["APIGroups"], Resources: fields["Resources"], Verbs: fields["Verbs"]})
	}
	return rules
}

// grant gives the ServiceAccount rules, cluster-wide.
func (w *world) grant(name string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	own := metav1.ObjectMeta{Name: name + "-" + w.name}
	w.create(&rbacv1.ClusterRole{ObjectMeta: own, Rules: rules})
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: own, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: own.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "installer"}},
	})
}
