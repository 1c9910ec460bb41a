package provided

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/rbac"
)

func things() API { return API{Kind: "Thing", Version: "v1", Group: "example.com", Plural: "things"} }

func TestRolesOfAnAPIHaveTheNamesAndVerbsOfTheContract(t *testing.T) {
	got := map[string][]string{}
	for _, role := range RolesOf(things()) {
		require.Len(t, role.Rules, 1)
		got[role.Name] = role.Rules[0].Verbs
		require.Len(t, role.Labels, 2)
	}
	require.Equal(t, map[string][]string{
		"things.example.com-v1-admin":   {"*"},
		"things.example.com-v1-edit":    {"create", "update", "patch", "delete"},
		"things.example.com-v1-view":    {"get", "list", "watch"},
		"things.example.com-v1-crdview": {"get"},
	}, got)
	served := things()
	served.Served = true
	require.Len(t, RolesOf(served), 3)
}

func TestRolesOfAGroupAggregateThoseOfItsAPIs(t *testing.T) {
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "og"}}
	roles := GroupRoles(group, []API{things()})
	apis := RolesOf(things())
	require.Len(t, roles, 3)
	for i, suffix := range suffixes() {
		require.Regexp(t, `^olm\.og\.og\.`+suffix+`-[0-9a-zA-Z]{30,}$`, roles[i].Name)
		selector, err := metav1.LabelSelectorAsSelector(&roles[i].AggregationRule.ClusterRoleSelectors[0])
		require.NoError(t, err)
		require.True(t, selector.Matches(labels.Set(apis[i].Labels)))
	}
	for _, role := range append(roles, apis...) {
		selected := role.Labels
		if role.AggregationRule != nil {
			selected = role.AggregationRule.ClusterRoleSelectors[0].MatchLabels
		}
		for key := range selected {
			require.False(t, bundle.Harmless("ClusterRole", key), "a bundle must not set %s", key)
		}
	}
	// Without a rule, Kubernetes would keep what was aggregated last.
	require.Equal(t, []metav1.LabelSelector{{MatchLabels: map[string]string{groupLabel(API{}, "admin"): "true"}}}, GroupRoles(group, nil)[0].AggregationRule.ClusterRoleSelectors)
	group.Namespace = "t2"
	require.NotEqual(t, roles[0].Name, GroupRoles(group, nil)[0].Name)
}

func TestAnAccountNeedsWhatTheRolesGrant(t *testing.T) {
	roles := RolesOf(things())
	write := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"create", "get", "patch", "delete"}}
	read := rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"things"}, Verbs: []string{"get", "list", "watch"}}
	everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	urls := rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}
	may := func(rules ...rbacv1.PolicyRule) rbac.Permissions { return rbac.Permissions{Rules: rules} }

	require.NotEmpty(t, Missing(roles[2], nil, may(read)))
	require.NotEmpty(t, Missing(roles[2], nil, may(write)))
	require.Empty(t, Missing(roles[2], nil, may(write, read)))
	require.NotEmpty(t, Missing(roles[0], nil, may(write, read)))
	require.Empty(t, Missing(roles[0], nil, may(everything)))

	group := GroupRoles(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "og"}}, []API{things()})[2]
	require.NotEmpty(t, Missing(group, nil, may(write, read)))
	require.Empty(t, Missing(group, nil, may(everything, urls)))
}
