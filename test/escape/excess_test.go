package escape

import (
	"context"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	installed "github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
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

// removals contains installed operators whose account loses permissions and may not delete what grants them, on a cluster
// with the optional identity for removals.
func removals() []row {
	return []row{
		{number: "312", title: "a greedy operator, whose account may no longer delete its bindings, without remit-remover", holds: p1(), play: func(s *scene) {
			s.greedy(permits(readSecrets)())
			s.disarm()
			s.csvSays(failed, "they cannot be removed", "to remove them, run: kubectl delete rolebinding ")
			s.arm(func(obj *unstructured.Unstructured) {
				if obj.GetKind() == "ValidatingAdmissionPolicyBinding" {
					obj.Object["spec"].(map[string]any)["validationActions"] = []any{"Audit"}
				}
			})
			s.csvSays(failed, "is not used, because the cluster does not limit it as this version requires", "to remove them, run: kubectl delete rolebinding ")
			s.operatorCan("list", "secrets", true)
		}},
		{number: "313", title: "a greedy operator, whose account may no longer delete its ClusterRoleBinding, with remit-remover",
			holds: profile{own: p1().own, cluster: p3().cluster}, play: func(s *scene) {
				s.allow(func(c oracle.Change) bool {
					return c.Group == rbacv1.GroupName && strings.HasPrefix(c.Name, probeCSV+"-")
				})
				s.install(bundleOf(csv().ClusterPermissions(csvReadsPods())))
				s.Succeeded(probeCSV)
				s.operatorCan("get", "pods", true)
				s.arm()
				s.disarm()
				s.csvSays(failed, "permissions that exceed the account were removed", "pods")
				s.operatorCan("get", "pods", false)
				require.NoError(s.T, s.Get("operator", &appsv1.Deployment{}), "the operator's Pods continue to run")
				s.strengthen()
				s.setClusterRules(p3().cluster)
				s.Succeeded(probeCSV)
				s.operatorCan("get", "pods", true)
			}},
		{number: "314", title: "a ClusterExtension, whose identity may no longer delete its bindings, with remit-remover", holds: p1(), play: func(s *scene) {
			x := s.extension("greedy", bundleOf(permits(readSecrets)()))
			s.enrollAccount(accountName)
			x.create(x.as(accountName))
			x.Installed("1.0.0")
			s.arm()
			s.disarm()
			x.Says(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonRemoved, "secrets")
			s.operatorCan("list", "secrets", false)
		}},
		{number: "315", title: "remit-remover and objects that Remit has not created", holds: p1(), play: func(s *scene) {
			s.arm()
			s.greedy(permits(readSecrets)())
			remover := s.remover()
			others := &rbacv1.ClusterRoleBinding{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "cluster-admin"}, others))
			require.ErrorContains(s.T, apply.DeleteUnchanged(s.T.Context(), remover, others), "remit-remover may delete only objects with a proof that Remit created them")
			copied := &rbacv1.RoleBinding{ObjectMeta: s.Meta("copied"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "none"}}
			for _, b := range s.bindings() {
				if b.Labels[names.LabelPermissionsHash] == "" {
					continue
				}
				require.NoError(s.T, apply.DeleteUnchanged(s.T.Context(), remover, &b), "an object of Remit")
				require.ErrorContains(s.T, remover.Delete(s.T.Context(), &b), "remit-remover may delete only the version of an object that Remit has verified")
				copied.Annotations = b.Annotations
			}
			require.NotEmpty(s.T, copied.Annotations)
			s.Create(copied)
			require.ErrorContains(s.T, apply.DeleteUnchanged(s.T.Context(), remover, copied), "remit-remover may delete only objects of a ClusterServiceVersion or ClusterExtension")
			require.True(s.T, apierrors.IsForbidden(remover.Delete(s.T.Context(), &corev1.ServiceAccount{ObjectMeta: s.Meta(forge.ServiceAccount)})), "another kind")
			require.True(s.T, apierrors.IsForbidden(remover.DeleteAllOf(s.T.Context(), &rbacv1.RoleBinding{}, client.InNamespace(s.Namespace))))
		}},
		{number: "316", title: "remit-remover with more permissions than its manifest gives it", holds: p1(), play: func(s *scene) {
			s.arm()
			role, binding := rbac.RoleAndBinding(s.Meta("more"), []rbacv1.PolicyRule{rule(rbacv1.GroupName, "*", "*"), rule("", "*", "*")},
				rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: names.DefaultNamespace, Name: names.ServiceAccountRemover})
			for _, obj := range []any{role, binding} {
				s.Create(obj.(client.Object))
			}
			s.T.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), binding.(client.Object)) })
			remover := s.remover()
			s.Eventually(func(c *assert.CollectT) {
				err := remover.Create(s.T.Context(), &rbacv1.Role{ObjectMeta: s.Meta("created")})
				assert.ErrorContains(c, err, "remit-remover may not create or change objects")
			})
			changed := role.(*rbacv1.Role).DeepCopy()
			changed.Labels = map[string]string{"x": "y"}
			require.ErrorContains(s.T, remover.Patch(s.T.Context(), changed, client.MergeFrom(role.(client.Object))), "remit-remover may not create or change objects")
		}},
	}
}

// arm applies the optional identity for removals, with edits, and removes it after the row.
func (s *scene) arm(edits ...func(*unstructured.Unstructured)) {
	s.T.Helper()
	objs, err := installed.RenderRemover()
	require.NoError(s.T, err)
	for _, obj := range objs {
		for _, edit := range edits {
			edit(obj)
		}
	}
	require.NoError(s.T, installed.Apply(s.T.Context(), cluster.Client, objs))
	s.told.Beside = append(s.told.Beside, types.NamespacedName{Namespace: names.DefaultNamespace, Name: names.ServiceAccountRemover})
	s.T.Cleanup(func() {
		for _, obj := range slices.Backward(objs) {
			_ = cluster.Client.Delete(context.Background(), obj)
		}
	})
}

// disarm is like weaken, but the account may no longer delete roles and bindings.
func (s *scene) disarm() {
	s.T.Helper()
	require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
	s.setRules([]rbacv1.PolicyRule{rule("", "configmaps", "get")})
	s.setClusterRules([]rbacv1.PolicyRule{rule("", "configmaps", "get")})
}

// setClusterRules changes the account's rules in the whole cluster, if it has any.
func (s *scene) setClusterRules(rules []rbacv1.PolicyRule) {
	s.T.Helper()
	role := &rbacv1.ClusterRole{}
	err := cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: s.Namespace + "-" + accountName}, role)
	if apierrors.IsNotFound(err) {
		return
	}
	require.NoError(s.T, err)
	role.Rules = rules
	require.NoError(s.T, cluster.Client.Update(s.T.Context(), role))
}

// remover returns a client of the optional identity for removals, which only sends dry runs, and waits until its permissions and
// its policy are in effect.
func (s *scene) remover() client.Client {
	s.T.Helper()
	out := client.NewDryRunClient(cluster.As(s.T, scoped.Username(names.DefaultNamespace, names.ServiceAccountRemover),
		"system:serviceaccounts", "system:serviceaccounts:"+names.DefaultNamespace))
	probe := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"}}
	s.Eventually(func(c *assert.CollectT) {
		assert.ErrorContains(c, out.Delete(s.T.Context(), probe), "remit-remover may delete only objects with a proof")
	})
	return out
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
