package bundle

import (
	"fmt"
	"reflect"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
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
