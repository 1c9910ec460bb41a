package rbac

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidateRoleChecksRulesAndAggregation(t *testing.T) {
	aggregating := func(selectors ...metav1.LabelSelector) *rbacv1.ClusterRole {
		r := clusterRole("r")
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}
		return r
	}
	in := func(namespace string, texts ...string) *rbacv1.ClusterRole {
		r := clusterRole("r", texts...)
		r.Namespace = namespace
		return r
	}
	large := clusterRole("r")
	large.Rules = []rbacv1.PolicyRule{wide(30), wide(30)}
	for name, row := range map[string]struct {
		role *rbacv1.ClusterRole
		want string
	}{
		"no rules":                          {clusterRole("r"), ""},
		"URLs in the cluster":               {in(all, "get /a"), ""},
		"URLs in a namespace":               {in(t1, "get :pods", "get /a"), "only for the whole cluster"},
		"69 too many combinations in total": {large, ErrTooLarge.Error()},
		"aggregates by a label":             {aggregating(metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}), ""},
		"aggregates without selectors":      {aggregating(), "no clusterRoleSelectors"},
		"aggregates by an invalid selector": {aggregating(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}), "aggregationRule: "},
	} {
		t.Run(name, func(t *testing.T) { requireProblem(t, row.want, ValidateRole(row.role)) })
	}
}

func TestValidateBindingRejectsWhatTheAPIServerRejects(t *testing.T) {
	of := func(kind, group, name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: kind, APIGroup: group, Name: name}
	}
	toRole, toClusterRole := ref("Role", "r"), ref("ClusterRole", "r")
	for name, row := range map[string]struct {
		namespace string
		ref       rbacv1.RoleRef
		subject   rbacv1.Subject
		want      string
	}{
		"a Role in its namespace":                      {t1, toRole, account("", "a"), ""},
		"a ClusterRole in a namespace":                 {t1, toClusterRole, user("u"), ""},
		"a ClusterRole in the cluster":                 {all, toClusterRole, account(t1, "a"), ""},
		"a Role in the cluster":                        {all, toRole, user("u"), `kind "Role"`},
		"an unknown role kind":                         {t1, ref("Robot", "r"), user("u"), `kind "Robot"`},
		"a role of another group":                      {t1, rbacv1.RoleRef{APIGroup: "x", Kind: "Role", Name: "r"}, user("u"), `apiGroup "x"`},
		"a role of the default group":                  {t1, rbacv1.RoleRef{Kind: "Role", Name: "r"}, user("u"), ""},
		"a role without a name":                        {t1, ref("Role", ""), user("u"), "no name"},
		"a role whose name is a path":                  {t1, ref("Role", "a/b"), user("u"), `roleRef "a/b"`},
		"an account without namespace, in the cluster": {all, toClusterRole, account("", "a"), "has no namespace"},
		"an account with an invalid name":              {t1, toRole, account("", "A b"), "has an invalid name"},
		"an account with an API group":                 {t1, toRole, of("ServiceAccount", rbacv1.GroupName, "a"), "has unsupported apiGroup"},
		"a user of the default group":                  {t1, toRole, of("User", "", "u"), ""},
		"a user of another group":                      {t1, toRole, of("User", "x", "u"), `has unsupported apiGroup "x"`},
		"a group without a name":                       {t1, toRole, of("Group", "", ""), "has no name"},
		"an unknown subject kind":                      {t1, toRole, of("Robot", "", "r"), "has an unsupported kind"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: row.namespace}, RoleRef: row.ref, Subjects: []rbacv1.Subject{row.subject}}
			requireProblem(t, row.want, ValidateBinding(b))
		})
	}
}

func requireProblem(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, want)
}
