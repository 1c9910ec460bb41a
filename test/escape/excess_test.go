package escape

import (
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/escape/forge"
)

// graceArg is short, so that a row need not wait for long until permissions are removed.
const graceArg = "--excess-grace-period=10s"

const readSecrets = `{apiGroups: [""], resources: [secrets], verbs: [get, list]}`

// excesses contains installed operators whose account loses permissions.
func excesses() []row {
	const removed = "permissions that exceed the account were removed"
	return []row{
		{number: "340", title: "a greedy operator, whose account is weakened after the install", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets, readMaps)())
			s.weaken()
			s.csvSays(succeeded, "ExceedsAccount", "secrets", "Remit removes them. To keep them, ")
			s.csvSays(failed, removed, "secrets")
			s.operatorCan("list", "secrets", false)
			s.operatorCan("get", "configmaps", false) // one role has all rules of a ServiceAccount
			require.NoError(s.T, s.Get("operator", &appsv1.Deployment{}), "the operator's Pods continue to run")
			s.strengthen()
			s.Succeeded(probeCSV)
			s.operatorCan("list", "secrets", true)
		}},
		{number: "341", title: "a greedy operator, whose bundle contains its bindings", holds: p1(), play: func(s *scene) {
			s.greedy(csv(), `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: greedy}, rules: [`+readSecrets+`]}`,
				`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: greedy}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: greedy},
				subjects: [{kind: ServiceAccount, name: operator}]}`)
			s.weaken()
			s.operatorCan("list", "secrets", false)
			s.Succeeded(probeCSV)
			s.operatorCan("get", "configmaps", true)
		}},
		{number: "342", title: "an OperatorGroup that names a weaker account", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets)())
			const weaker = "acct2"
			s.account(weaker, profile{own: []rbacv1.PolicyRule{rule("", "configmaps", "get")}})
			for _, obj := range scoped.Enrollment(types.NamespacedName{Namespace: s.Namespace, Name: weaker}, names.DefaultNamespace) {
				s.Create(obj)
			}
			s.told.Accounts = append(s.told.Accounts, types.NamespacedName{Namespace: s.Namespace, Name: weaker})
			require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
			s.regroup(cluster.Client, func(og *operatorsv1.OperatorGroup) { og.Spec.ServiceAccountName = weaker })
			// The weaker account may not delete the binding, and no other identity of Remit may.
			csv := s.csvSays(failed, "they cannot be removed", "to remove them, run: kubectl delete rolebinding ")
			require.EqualValues(s.T, names.ConditionExceedsAccount, csv.Status.Reason)
			s.operatorCan("list", "secrets", true)
		}},
		{number: "343", title: "a tenant who keeps an excess with the annotation", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets)())
			keep := func(og *operatorsv1.OperatorGroup) {
				og.Annotations = map[string]string{names.AnnotationKeepExcess: "true"}
			}
			tenant := s.authorWho(rule("operators.coreos.com", "operatorgroups", "*"), actAs(accountName))
			og := &operatorsv1.OperatorGroup{}
			require.NoError(s.T, s.Get(groupName, og))
			kept := og.DeepCopy()
			keep(kept)
			require.ErrorContains(s.T, tenant.Patch(s.T.Context(), kept, client.MergeFrom(og)), "a user needs the verb keep-excess on operatorgroups.operators.coreos.com in all namespaces")

			s.regroup(cluster.Client, keep)
			s.weaken()
			s.csvSays(succeeded, "they are kept because of the annotation "+names.AnnotationKeepExcess)
			s.operatorCan("list", "secrets", true)
			s.regroup(tenant, func(og *operatorsv1.OperatorGroup) { og.Annotations = nil })
			s.csvSays(failed, removed)
			s.operatorCan("list", "secrets", false)
		}},
		{number: "344", title: "a binding of another user with the labels and the proof of the operator's", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets)())
			var copied *rbacv1.RoleBinding
			for _, b := range s.bindings() {
				if b.Labels[names.LabelPermissionsHash] != "" {
					copied = &rbacv1.RoleBinding{ObjectMeta: s.Meta("copied"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}, Subjects: b.Subjects}
					copied.Labels, copied.Annotations = b.Labels, b.Annotations
				}
			}
			require.NotNil(s.T, copied)
			s.Create(copied)
			s.weaken()
			s.csvSays(failed, removed)
			require.NoError(s.T, s.Get("copied", copied), "Remit removes only what it has created")
		}},
		{number: "345", title: "a ClusterExtension, whose identity is weakened after the install", holds: p1(), play: func(s *scene) {
			x := s.extension("greedy", bundleOf(permits(readSecrets)()))
			s.enrollAccount(accountName)
			x.create(x.as(accountName))
			x.Installed("1.0.0")
			s.operatorCan("list", "secrets", true)
			keep := func(ext *olmv1.ClusterExtension) {
				ext.Annotations = map[string]string{names.AnnotationKeepExcess: "true"}
			}
			require.ErrorContains(s.T, x.edit(s.extensionAuthor(actAs(accountName)), keep), "a user needs the verb keep-excess on clusterextensions.olm.operatorframework.io")
			s.weaken()
			x.Says(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonRemoved, "secrets")
			s.operatorCan("list", "secrets", false)
			require.NoError(s.T, s.Get("operator", &appsv1.Deployment{}), "the operator's Pods continue to run")
			s.strengthen()
			s.operatorCan("list", "secrets", true)
			x.Installed("1.0.0")
		}},
	}
}

// greedy installs an operator that may list Secrets.
func (s *scene) greedy(c forge.CSV, manifests ...string) {
	s.T.Helper()
	s.install(bundleOf(c, manifests...))
	s.Succeeded(probeCSV)
	s.operatorCan("list", "secrets", true)
}

// weaken removes permissions from the account. It may still delete the operator's roles and bindings.
func (s *scene) weaken() {
	s.T.Helper()
	require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
	rules := slices.Clone(p0().own)
	rules[1] = rule("", "serviceaccounts services configmaps pods", "get", "list", "watch", "create", "update", "patch", "delete")
	s.setRules(rules)
}

// strengthen gives the account its permissions again.
func (s *scene) strengthen() { s.setRules(p1().own) }

func (s *scene) setRules(rules []rbacv1.PolicyRule) {
	s.T.Helper()
	role := &rbacv1.Role{}
	require.NoError(s.T, s.Get(accountName, role))
	role.Rules = rules
	require.NoError(s.T, cluster.Client.Update(s.T.Context(), role))
}

// operatorCan waits until the API server allows, or denies, a request of the operator.
func (s *scene) operatorCan(verb, resource string, want bool) {
	s.T.Helper()
	ask := preflight.Reviews(cluster.Client)
	s.Eventually(func(c *assert.CollectT) {
		allowed, err := ask(s.T.Context(), rbac.ServiceAccount(s.Namespace, forge.ServiceAccount), s.Namespace, rule("", resource, verb))
		assert.NoError(c, err)
		assert.Equal(c, want, allowed)
	})
}
