package olm

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/remit-olm/remit/test/env"
)

// requirement returns the requirement of kind ServiceAccount with the given name.
func requirement(c assert.TestingT, got *csv, name string) operatorsv1alpha1.RequirementStatus {
	for _, r := range got.Status.RequirementStatus {
		if r.Kind == "ServiceAccount" && r.Name == name {
			return r
		}
	}
	assert.Fail(c, "no such requirement", "%s in %v", name, got.Status.RequirementStatus)
	return operatorsv1alpha1.RequirementStatus{}
}

func TestReportsLostPermissionsAtOnce(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, func(c *csv) {
		rules := &c.Spec.InstallStrategy.StrategySpec.Permissions[0].Rules
		*rules = append(*rules, rule("", "pods", "list"))
	})
	requirePhase(tn, pending, "RequirementsNotMet")
	pods := tn.Grant(tn.Namespace, rule("", "pods", "list"))
	got := requireSucceeded(tn)
	require.EqualValues(t, "Present", requirement(t, got, env.AccountName).Status)
	roles := operatorRoles(tn, tn.Namespace)

	for range 2 {
		require.NoError(t, cluster.Client.Delete(t.Context(), pods))
		missing := `ServiceAccount ` + tn.Account.String() + ` is missing permissions: in namespace ` + tn.Namespace + ` {apiGroups: [""], resources: ["pods"], verbs: ["list"]}`
		tn.Eventually(func(c *assert.CollectT) {
			assert.NoError(c, tn.Get("demo.v1.0.0", got))
			assert.Regexp(c, "^install strategy completed with no errors; ExceedsAccount: "+regexp.QuoteMeta(missing)+`; the operator has them through RoleBinding .*: at \S+, Remit removes them\. To keep them, `, got.Status.Message)
			assert.EqualValues(c, "ExceedsAccount", got.Status.Reason)
		})
		require.Equal(t, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase)
		account := requirement(t, got, env.AccountName)
		require.EqualValues(t, "PresentNotSatisfied", account.Status)
		require.True(t, strings.HasPrefix(account.Message, "Policy rule not satisfied for service account: in namespace "+tn.Namespace+" "), account.Message)
		require.Equal(t, []operatorsv1alpha1.DependentStatus{
			dependent("Satisfied", `namespaced rule:{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}`),
			dependent("NotSatisfied", `namespaced rule:{"verbs":["list"],"apiGroups":[""],"resources":["pods"]}`),
		}, account.Dependents)
		require.EqualValues(t, "Present", requirement(t, got, "demo").Status, "the operator must keep its permissions during the grace period")
		require.Equal(t, roles, operatorRoles(tn, tn.Namespace))
		require.NoError(t, tn.Get("demo", &appsv1.Deployment{}))

		pods = tn.Grant(tn.Namespace, rule("", "pods", "list"))
		tn.Eventually(func(c *assert.CollectT) {
			assert.NoError(c, tn.Get("demo.v1.0.0", got))
			assert.Equal(c, "install strategy completed with no errors", got.Status.Message)
		})
		require.EqualValues(t, "Present", requirement(t, got, env.AccountName).Status)
	}
}

func dependent(status operatorsv1alpha1.StatusReason, message string) operatorsv1alpha1.DependentStatus {
	return operatorsv1alpha1.DependentStatus{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "PolicyRule", Status: status, Message: message}
}

func TestReportsInWhichTargetsRulesAreMissing(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	a, b := tn.Other(nil), tn.Other(nil)
	tn.Grant(a, append(manageRBAC(), readConfigMaps())...)
	tn.Grant(b, manageRBAC()...)
	tn.Group(env.AccountName, tn.Namespace, a, b)
	newCSV(tn)
	requirePhase(tn, pending, "RequirementsNotMet")
	tn.Eventually(func(c *assert.CollectT) { // Remit observes the grants one after the other
		got := &csv{}
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		account := requirement(c, got, env.AccountName)
		assert.Equal(c, `Policy rule not satisfied for service account: in namespace `+b+` {apiGroups: [""], resources: ["configmaps"], verbs: ["get"]}`, account.Message)
		if assert.NotEmpty(c, account.Dependents) {
			assert.EqualValues(c, "NotSatisfied", account.Dependents[0].Status)
		}
	})
	tn.Grant(b, readConfigMaps())
	requireSucceeded(tn)
}

// An account that may escalate and bind is not bounded: the API server lets it grant permissions that it does not have.
func TestReportsPermissionsGrantedByEscalation(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Grant(tn.Namespace, append(manageRBAC(), manageDeployments(),
		rule("", "serviceaccounts", "get", "create", "patch"),
		rule("operators.coreos.com", "clusterserviceversions", "get", "patch"),
		rule("rbac.authorization.k8s.io", "roles", "escalate", "bind"))...)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn)
	got := requireSucceeded(tn)
	require.Contains(t, got.Status.Message, "; ExceedsAccount: ServiceAccount "+tn.Account.String()+" is missing permissions: in namespace "+tn.Namespace)
	require.EqualValues(t, "NotSatisfied", requirement(t, got, env.AccountName).Dependents[0].Status)
	require.EqualValues(t, "Satisfied", requirement(t, got, "demo").Dependents[0].Status)
}

// manyRules is the number of rules that a CSV requests, as in a row of test/escape.
const manyRules = 10_000

func TestAStatusOfTenThousandRulesFits(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, func(c *csv) {
		rules := &c.Spec.InstallStrategy.StrategySpec.Permissions[0].Rules
		for i := range manyRules - 1 { // newCSV already has one rule
			*rules = append(*rules, rule("many.test", fmt.Sprintf("r%04d", i), "get"))
		}
	})
	got := rarely(tn, pending, "RequirementsNotMet")
	require.Regexp(t, `verbs: \["get"\]}; and \d+ more$`, got.Status.Message)
	require.Less(t, len(got.Status.Message), 1000)
	account := requirement(t, got, env.AccountName)
	last := account.Dependents[len(account.Dependents)-2:]
	require.EqualValues(t, "NotSatisfied", last[0].Status)
	require.Regexp(t, `^and \d+ more$`, last[0].Message)
	require.Equal(t, dependent("Satisfied", "and 1 more"), last[1])

	tn.Grant(tn.Namespace, rule("many.test", "*", "get"))
	got = rarely(tn, operatorsv1alpha1.CSVPhaseSucceeded, "InstallSucceeded")
	for _, name := range []string{env.AccountName, "demo"} {
		r := requirement(t, got, name)
		require.EqualValues(t, "Present", r.Status)
		require.Equal(t, `namespaced rule:{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}`, r.Dependents[0].Message)
		require.Regexp(t, `^and \d+ more$`, r.Dependents[len(r.Dependents)-1].Message)
	}
}

// rarely is like requirePhase, but polls less often, because the object is about one megabyte in size.
func rarely(tn *env.Tenant, phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason) *csv {
	tn.T.Helper()
	got := &csv{}
	require.EventuallyWithT(tn.T, func(c *assert.CollectT) {
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Equal(c, phase, got.Status.Phase, got.Status.Message)
		assert.Equal(c, reason, got.Status.Reason, got.Status.Message)
	}, 5*env.Patience, time.Second)
	return got
}
