package condition

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

func upgradeable(status metav1.ConditionStatus, observed int64) metav1.Condition {
	return metav1.Condition{Type: operatorsv2.Upgradeable, Status: status, Reason: "Busy", Message: "migrating", ObservedGeneration: observed}
}

// given returns an OperatorCondition of generation 2.
func given(edit func(*operatorsv2.OperatorCondition)) *operatorsv2.OperatorCondition {
	c := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	edit(c)
	return c
}

func TestOperatorConditionsPreventUpgrades(t *testing.T) {
	t.Parallel()
	type change = func(*operatorsv2.OperatorCondition)
	reports := func(status metav1.ConditionStatus, observed int64) change {
		return func(c *operatorsv2.OperatorCondition) {
			c.Status.Conditions = []metav1.Condition{upgradeable(status, observed)}
		}
	}
	overridden := func(status metav1.ConditionStatus, also change) change {
		return func(c *operatorsv2.OperatorCondition) {
			also(c)
			c.Spec.Overrides = []metav1.Condition{{Type: "Other", Status: metav1.ConditionFalse}, upgradeable(status, 0)}
		}
	}
	for _, row := range []struct {
		name string
		edit change
		want string
	}{
		{"nothing is reported", func(*operatorsv2.OperatorCondition) {}, ""},
		{"True", reports(metav1.ConditionTrue, 2), ""},
		{"Unknown", reports(metav1.ConditionUnknown, 2), ""},
		{"False", reports(metav1.ConditionFalse, 2), "migrating"},
		{"False, for an earlier spec", reports(metav1.ConditionFalse, 1), "migrating"},
		{"True, for an earlier spec", reports(metav1.ConditionTrue, 1), `the operatorcondition status "Upgradeable"="True" is outdated`},
		{"another condition is False", func(c *operatorsv2.OperatorCondition) {
			c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse}}
		}, ""},
		{"a condition that is not in the status yet", func(c *operatorsv2.OperatorCondition) {
			c.Spec.Conditions = []metav1.Condition{upgradeable(metav1.ConditionTrue, 0)}
		}, `the operatorcondition status "Upgradeable"="Unknown" is outdated`},
		{"False is overridden with True", overridden(metav1.ConditionTrue, reports(metav1.ConditionFalse, 2)), ""},
		{"an outdated status is overridden with True", overridden(metav1.ConditionTrue, reports(metav1.ConditionTrue, 1)), ""},
		{"True is overridden with False", overridden(metav1.ConditionFalse, reports(metav1.ConditionTrue, 2)), "migrating"},
		{"False without a message", func(c *operatorsv2.OperatorCondition) {
			c.Spec.Overrides = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse}}
		}, "the condition Upgradeable is False"},
		{"a message with line breaks and control characters", func(c *operatorsv2.OperatorCondition) {
			c.Spec.Overrides = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse, Message: "a\nb\x1b"}}
		}, "a b\uFFFD"},
	} {
		require.Equal(t, row.want, HeldBack(given(row.edit)), row.name)
	}
	long := given(func(c *operatorsv2.OperatorCondition) {
		c.Spec.Overrides = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse, Message: strings.Repeat("x", 32768)}}
	})
	require.Len(t, HeldBack(long), maxReason)
}

func TestTheStatusFollowsTheSpec(t *testing.T) {
	t.Parallel()
	c := given(func(c *operatorsv2.OperatorCondition) {
		first, second := upgradeable(metav1.ConditionFalse, 7), upgradeable(metav1.ConditionTrue, 0)
		c.Spec.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Message: "a\x00"}, first, second}
		c.Status.Conditions = []metav1.Condition{{Type: "Gone", Status: metav1.ConditionTrue}}
	})
	require.Equal(t, []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, Message: "a\uFFFD", ObservedGeneration: 2}, upgradeable(metav1.ConditionFalse, 2),
	}, Observed(c))
	require.Empty(t, Observed(given(func(*operatorsv2.OperatorCondition) {})))
}

func TestTheStatusIsBounded(t *testing.T) {
	t.Parallel()
	c := given(func(c *operatorsv2.OperatorCondition) {
		for i := range 1000 {
			c.Spec.Conditions = append(c.Spec.Conditions, metav1.Condition{Type: fmt.Sprint("T", i), Message: strings.Repeat("x", 32768)})
		}
		c.Spec.Conditions = append(c.Spec.Conditions, upgradeable(metav1.ConditionFalse, 0))
	})
	got := Observed(c)
	require.Len(t, got, MaxConditions)
	require.Equal(t, operatorsv2.Upgradeable, got[MaxConditions-1].Type, "the condition that prevents upgrades must not be dropped")
	require.True(t, slices.IndexFunc(got, func(c metav1.Condition) bool { return len(c.Message) > maxMessage }) < 0)
}

func csvWith(name string, serviceAccounts ...string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "t1", UID: "u"}}
	for i, sa := range serviceAccounts {
		d := operatorsv1alpha1.StrategyDeploymentSpec{Name: fmt.Sprint("d", i)}
		d.Spec.Template.Spec.ServiceAccountName = sa
		specs := &csv.Spec.InstallStrategy.StrategySpec
		specs.DeploymentSpecs = append(specs.DeploymentSpecs, d)
	}
	return csv
}

func TestDesiredFollowsTheInstallStrategy(t *testing.T) {
	t.Parallel()
	csv := csvWith("demo.v1.0.0", "b", "a", "b", "")
	csv.Labels = map[string]string{"operators.coreos.com/demo.t1": "x", "olm.copiedFrom": "t2"}
	got := Desired(csv)
	require.Equal(t, operatorsv2.OperatorConditionSpec{ServiceAccounts: []string{"a", "b", "default"}, Deployments: []string{"d0", "d1", "d2", "d3"}}, got.Spec)
	require.Equal(t, map[string]string{"operators.coreos.com/demo.t1": ""}, got.Labels)
	require.Len(t, got.OwnerReferences, 1)
	require.Equal(t, csv.UID, got.OwnerReferences[0].UID)
	for i := range 100 {
		csv.Labels[fmt.Sprint("operators.coreos.com/x", i)] = ""
	}
	require.Len(t, Desired(csv).Labels, maxComponentLabels)
}

func TestAccessIsOneRoleForOneObject(t *testing.T) {
	t.Parallel()
	csv := csvWith("demo.v1.0.0", "b", "a", "b")
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: csv.Name, UID: csv.UID}
	got, err := Access(csv, owner)
	require.NoError(t, err)
	require.Len(t, got, 2)
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	require.NoError(t, apply.Decode(got[0], role))
	require.NoError(t, apply.Decode(got[1], binding))
	require.Equal(t, []rbacv1.PolicyRule{{Verbs: []string{"get", "update", "patch"}, APIGroups: []string{"operators.coreos.com"},
		Resources: []string{"operatorconditions"}, ResourceNames: []string{"demo.v1.0.0"}}}, role.Rules)
	require.Equal(t, role.Name, binding.RoleRef.Name)
	require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "a", Namespace: "t1"}, {Kind: "ServiceAccount", Name: "b", Namespace: "t1"}}, binding.Subjects)
	require.Regexp(t, `^demo\.v1\.0\.0-condition-[a-z2-7]{16}$`, role.Name)

	none, err := Access(csvWith("demo.v1.0.0"), owner)
	require.NoError(t, err)
	require.Empty(t, none)

	long := csvWith(strings.Repeat("x", 200), "a")
	got, err = Access(long, owner)
	require.NoError(t, err)
	require.Len(t, got[0].GetName(), maxRoleName)
}
