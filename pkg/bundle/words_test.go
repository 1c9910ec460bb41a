package bundle

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/test/injection"
)

// The fields come from the type, so that a new one is not forgotten.
func TestStringsOfRulesAreWords(t *testing.T) {
	list := reflect.TypeFor[rbacv1.PolicyRule]()
	for i := range list.NumField() {
		for _, odd := range []string{"get\n---\nkind: ClusterRoleBinding", "get it", "get\t", "get\x1b[31m", "get\u202e", "get\u2028", "get\u200b", "get\x00", "get\xff"} {
			rule := rbacv1.PolicyRule{Verbs: []string{"get"}}
			field := reflect.ValueOf(&rule).Elem().Field(i)
			field.Set(reflect.Append(field, reflect.ValueOf(odd)))
			csv := &operatorsv1alpha1.ClusterServiceVersion{}
			csv.Name = "op.v1"
			csv.Spec.InstallStrategy.StrategySpec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: []rbacv1.PolicyRule{rule}}}
			name := fmt.Sprintf("%s %q", list.Field(i).Name, odd)
			require.ErrorContains(t, validatePermissions(csv.Spec.InstallStrategy.StrategySpec), "contains white space or control characters", name)
		}
	}
	rule := rbacv1.PolicyRule{Verbs: []string{"get", "*"}, APIGroups: []string{"", "a.example.com"}, Resources: []string{"pods/log", "*/scale"}, ResourceNames: []string{"system:a+b@c"}}
	require.NoError(t, checkRules([]rbacv1.PolicyRule{rule}))
}

// The places come from the type. Those that are texts for people stay as they are.
func TestEveryNameOfAClusterServiceVersionIsChecked(t *testing.T) {
	const text = "x\n---\nkind: ClusterRoleBinding\n"
	checked := map[string]bool{}
	for _, p := range injection.Places[operatorsv1alpha1.ClusterServiceVersionSpec]() {
		csv := &operatorsv1alpha1.ClusterServiceVersion{TypeMeta: metav1.TypeMeta{Kind: "ClusterServiceVersion"}}
		csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
		p.Set(&csv.Spec, text)
		if csv.Spec.InstallStrategy.StrategyName != operatorsv1alpha1.InstallStrategyNameDeployment {
			continue // the error quotes it
		}
		byUser := ValidateCSV(csv)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(csv)
		if err != nil {
			continue // the string does not have the syntax of the field
		}
		inBundle := (&Bundle{}).add(&unstructured.Unstructured{Object: object})
		for _, err := range []error{byUser, inBundle} {
			if err != nil {
				require.NotContains(t, err.Error(), "\n---", p.Path)
			}
		}
		if why := fmt.Sprint(byUser); strings.Contains(why, `"x\n---\nkind: ClusterRoleBinding\n" contains`) || strings.Contains(why, `key "x\n---`) {
			checked[p.Path] = true
			require.ErrorContains(t, inBundle, "spec"+strings.Split(strings.ReplaceAll(p.Path, "{value}", ""), "{key}")[0])
		}
	}
	require.Greater(t, len(checked), 100)
	const pod = ".install.spec.deployments[0].spec.template"
	for _, path := range []string{
		".customresourcedefinitions.owned[0].name", ".apiservicedefinitions.required[0].group", ".webhookdefinitions[0].rules[0].resources[0]", ".replaces", ".skips[0]", ".installModes[0].type",
		".install.spec.deployments[0].name", ".install.spec.deployments[0].label{key}", pod + ".metadata.labels{key}", pod + ".spec.containers[0].image", pod + ".spec.nodeSelector{key}",
	} {
		require.True(t, checked[path], path)
	}
	require.False(t, checked[".description"])
	require.False(t, checked[".provider.name"])
}
