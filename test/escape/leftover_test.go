package escape

import (
	"fmt"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// leftovers contains tenants who keep an excess by removing what Remit compares it with.
func leftovers() []row {
	const operators = "operators.coreos.com"
	return []row{
		{number: "302", title: "a CSV that is deleted without its bindings", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets)())
			tenant := s.authorWho(rule(operators, "subscriptions clusterserviceversions", "delete"))
			require.NoError(s.T, tenant.Delete(s.T.Context(), &operatorsv1alpha1.Subscription{ObjectMeta: s.Meta(s.subscription())}))
			s.orphan(tenant, &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: s.Meta(probeCSV)})
			s.operatorCan("list", "secrets", true)
			s.weaken()
			s.operatorCan("list", "secrets", false)
			s.groupSays(metav1.ConditionFalse, "Removed", "secrets")
			require.NoError(s.T, s.Get("operator", &appsv1.Deployment{}), "the operator's Pods continue to run")
		}},
		{number: "303", title: "a ClusterExtension that is deleted without its bindings, with remit-remover", holds: p1(), play: func(s *scene) {
			x := s.extension("greedy", bundleOf(permits(readSecrets)()))
			s.enrollAccount(accountName)
			x.create(x.as(accountName))
			x.Installed("1.0.0")
			s.operatorCan("list", "secrets", true)
			s.arm()
			s.orphan(s.extensionAuthor(), x.Get())
			s.operatorCan("list", "secrets", false)
			require.NoError(s.T, s.Get("operator", &appsv1.Deployment{}), "the operator's Pods continue to run")
		}},
		{number: "304", title: "a second OperatorGroup, and none, of a greedy operator, with remit-remover", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets)())
			s.arm()
			tenant := s.authorWho(rule(operators, "operatorgroups", "create", "delete"), actAs(accountName))
			second := &operatorsv1.OperatorGroup{ObjectMeta: s.Meta("second")}
			second.Spec.ServiceAccountName, second.Spec.TargetNamespaces = accountName, []string{s.Namespace}
			require.NoError(s.T, tenant.Create(s.T.Context(), second))
			s.csvSays(failed, "multiple operatorgroups")
			s.operatorCan("list", "secrets", true)
			s.disarm()
			s.operatorCan("list", "secrets", false)
			require.NoError(s.T, s.Get("operator", &appsv1.Deployment{}), "the operator's Pods continue to run")
		}},
		{number: "305", title: "an OperatorGroup and a ClusterExtension that name Remit's own ServiceAccounts", holds: p1(), play: func(s *scene) {
			s.arm()
			x := s.extension("own", bundleOf(csv()))
			x.namespace = names.DefaultNamespace
			x.create(x.as(names.ServiceAccountRemover))
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonIdentityReserved, "belongs to Remit itself, and nothing is installed as it")
			og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultNamespace, Name: s.Namespace}}
			og.Spec.ServiceAccountName = names.ServiceAccountOLM
			s.createOutside(og)
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(og), og))
				got := meta.FindStatusCondition(og.Status.Conditions, "AccountUsable")
				if assert.NotNil(c, got) {
					assert.Equal(c, string(scoped.AccountReserved), got.Reason, got.Message)
				}
			})
		}},
		{number: "307", title: "a bundle that binds its own account, whose account is weakened", holds: p1(), play: func(s *scene) {
			s.greedy(csv(), `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: greedy}, rules: [`+readSecrets+`]}`,
				`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: greedy}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: greedy},
				subjects: [{kind: ServiceAccount, name: operator}, {kind: ServiceAccount, name: `+accountName+`}]}`)
			s.weaken()
			s.operatorCan("list", "secrets", false)
		}},
		{number: "308", title: "an OperatorGroup that names the operator's ServiceAccount, with remit-remover", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets)())
			s.arm()
			s.weaken()
			s.regroup(cluster.Client, func(og *operatorsv1.OperatorGroup) { og.Spec.ServiceAccountName = "operator" })
			s.operatorCan("list", "secrets", false)
		}},
		{number: "309", title: "an account with more permissions than Remit reads, which is weakened, with remit-remover", holds: p1(), play: func(s *scene) {
			many := make([]string, 45_000)
			for i := range many {
				many[i] = fmt.Sprint("m", i)
			}
			s.greedy(permits(`{apiGroups: [""], resources: [configmaps], verbs: [get], resourceNames: [`+strings.Join(many[:700], ", ")+`]}`, readSecrets)())
			s.arm()
			for i := range 5 {
				role := &rbacv1.Role{ObjectMeta: s.Meta(fmt.Sprint("many", i)), Rules: []rbacv1.PolicyRule{
					{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}, ResourceNames: many}}}
				s.Create(role)
				s.Create(&rbacv1.RoleBinding{ObjectMeta: s.Meta(role.Name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
					Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: accountName}}})
			}
			s.weaken()
			s.operatorCan("list", "secrets", false)
		}},
	}
}

// orphan deletes an object as kubectl delete --cascade=orphan does.
func (s *scene) orphan(tenant client.Client, obj client.Object) {
	s.T.Helper()
	require.NoError(s.T, tenant.Delete(s.T.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	s.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(obj), obj)))
	})
}

// subscription returns the name of the Subscription in the namespace.
func (s *scene) subscription() string {
	s.T.Helper()
	list := &operatorsv1alpha1.SubscriptionList{}
	s.list(list)
	require.Len(s.T, list.Items, 1)
	return list.Items[0].Name
}

// groupSays waits for the condition of the OperatorGroup about permissions that exceed the account.
func (s *scene) groupSays(status metav1.ConditionStatus, reason, words string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, s.Get(groupName, og))
		got := meta.FindStatusCondition(og.Status.Conditions, names.ConditionExceedsAccount)
		if assert.NotNil(c, got) {
			assert.Equal(c, string(status)+" "+reason, string(got.Status)+" "+got.Reason, got.Message)
			assert.Contains(c, got.Message, words)
		}
	})
}
