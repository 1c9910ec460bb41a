package hooks

import (
	"slices"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	samplehooks "github.com/remit-olm/remit/test/operators/sample/hooks"
)

// shared installs an operator whose webhooks are called in its own namespace and in another one, and returns the latter.
func shared(tn *env.Tenant) (victim string, group *operatorsv1.OperatorGroup) {
	tn.T.Helper()
	victim = tn.Other(nil)
	c := operator(1)
	grant(tn, c, tn.Namespace, victim)
	group = tn.Group(env.AccountName, tn.Namespace, victim)
	install(tn, c)
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, tn.Cluster.Client, victim)) })
	return victim, group
}

// revoke deletes the bindings of the tenant's account in namespaces or, for "", those in the whole cluster.
func revoke(tn *env.Tenant, namespaces ...string) {
	tn.T.Helper()
	ofAccount := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Namespace == tn.Account.Namespace && s.Name == tn.Account.Name })
	}
	for _, namespace := range namespaces {
		var doomed []client.Object
		bindings, clusterWide := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
		if namespace == "" {
			require.NoError(tn.T, tn.Cluster.Client.List(tn.T.Context(), clusterWide))
		} else {
			require.NoError(tn.T, tn.Cluster.Client.List(tn.T.Context(), bindings, client.InNamespace(namespace)))
		}
		for i := range bindings.Items {
			if ofAccount(bindings.Items[i].Subjects) {
				doomed = append(doomed, &bindings.Items[i])
			}
		}
		for i := range clusterWide.Items {
			if ofAccount(clusterWide.Items[i].Subjects) {
				doomed = append(doomed, &clusterWide.Items[i])
			}
		}
		require.NotEmpty(tn.T, doomed, namespace)
		for _, obj := range doomed {
			require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), obj))
		}
	}
}

// calledAtAll reports whether one of the webhooks is called for a namespace.
func calledAtAll(t assert.TestingT, c client.Client, namespace string) bool {
	refused := message(namespace, samplehooks.Refused)
	err := c.Create(contextOf(t), refused, client.DryRunAll)
	return err != nil || refused.Labels[samplehooks.Label] != ""
}

// Whatever a tenant removes or adds first, a webhook intercepts nothing more in a namespace that revokes the permissions.
func TestAWebhookIsNarrowedWithoutItsOperatorGroup(t *testing.T) {
	t.Parallel()
	for name, evade := range map[string]func(tn *env.Tenant, group *operatorsv1.OperatorGroup){
		"the OperatorGroup is deleted": func(tn *env.Tenant, group *operatorsv1.OperatorGroup) {
			require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), group))
		},
		"there is a second OperatorGroup": func(tn *env.Tenant, group *operatorsv1.OperatorGroup) {
			second := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("second"), Spec: group.Spec}
			tn.Create(second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tn := cluster.Tenant(t)
			victim, group := shared(tn)
			evade(tn, group)
			tn.Eventually(func(ct *assert.CollectT) {
				got := &csv{}
				assert.NoError(ct, tn.Get(nameOf(1), got))
				assert.Contains(ct, got.Status.Message, "operatorgroups")
			})
			require.True(t, calledIn(t, cluster.Client, victim), "the account still has the permissions")
			revoke(tn, victim)
			tn.Eventually(func(ct *assert.CollectT) { assert.False(ct, calledAtAll(ct, cluster.Client, victim)) })
			require.True(t, calledIn(t, cluster.Client, tn.Namespace))
		})
	}
}

// A webhook whose ClusterServiceVersion was deleted without it is reported with the command that deletes it, and deleted as soon as an
// identity may.
func TestAWebhookIsRemovedWithoutItsClusterServiceVersion(t *testing.T) {
	t.Parallel()
	c := startCluster(t, env.Options{Without: []string{names.ServiceAccountCatalog},
		Args: []manifests.Args{{Deployment: names.ServiceAccountOLM, Args: []string{"--excess-grace-period=10s"}}}})
	tn := c.Tenant(t)
	victim, group := shared(tn)
	spec := group.Spec
	require.NoError(t, c.Client.Delete(t.Context(), group))
	deleted := &csv{ObjectMeta: tn.Meta(nameOf(1))}
	require.NoError(t, c.Client.Delete(t.Context(), deleted, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, apierrors.IsNotFound(tn.Get(nameOf(1), deleted))) })
	revoke(tn, "", tn.Namespace, victim)
	group = &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("again"), Spec: spec}
	tn.Create(group)
	tn.Eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, tn.Get(group.Name, group))
		exceeds := meta.FindStatusCondition(group.Status.Conditions, names.ConditionExceedsAccount)
		if assert.NotNil(ct, exceeds) {
			assert.Equal(ct, "NotRemoved", exceeds.Reason)
			assert.Contains(ct, exceeds.Message, "kubectl delete validatingwebhookconfiguration v.hooker.remit.dev-")
			assert.Contains(ct, exceeds.Message, "kubectl delete mutatingwebhookconfiguration m.hooker.remit.dev-")
		}
	})
	require.Contains(t, tn.RemitStatus(), "kubectl delete validatingwebhookconfiguration v.hooker.remit.dev-")
	require.True(t, calledIn(t, c.Client, victim), "nothing may delete it")

	objs, err := manifests.RenderRemover()
	require.NoError(t, err)
	require.NoError(t, manifests.Apply(t.Context(), c.Client, objs))
	tn.Eventually(func(ct *assert.CollectT) { assert.False(ct, calledAtAll(ct, c.Client, victim)) })
	others := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "others.example.com"}}
	require.NoError(t, c.Client.Create(t.Context(), others))
	remover := c.As(t, scoped.Username(names.DefaultNamespace, names.ServiceAccountRemover), "system:serviceaccounts")
	require.ErrorContains(t, apply.DeleteUnchanged(t.Context(), remover, others), "remit-remover may delete only objects with a proof that Remit created them")
	tn.Eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, tn.Get(group.Name, group))
		exceeds := meta.FindStatusCondition(group.Status.Conditions, names.ConditionExceedsAccount)
		assert.True(ct, exceeds == nil || exceeds.Status == metav1.ConditionFalse, exceeds)
	})
}
