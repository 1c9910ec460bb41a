package hooks

import (
	"context"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

func contextOf(t any) context.Context {
	if has, ok := t.(interface{ Context() context.Context }); ok {
		return has.Context()
	}
	return context.Background()
}

func TestCallsWebhooksInTheTargetsOnly(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	other, stranger := tn.Other(nil), tn.Other(nil)
	c := operator(1)
	grant(tn, c, tn.Namespace)
	group := tn.Group(env.AccountName, tn.Namespace)
	install(tn, c)
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, cluster.Client, tn.Namespace)) })
	for _, namespace := range []string{other, stranger} {
		require.NoError(t, cluster.Client.Create(t.Context(), message(namespace, "goodbye")))
		require.False(t, calledIn(t, cluster.Client, namespace))
	}

	grant(tn, c, other)
	before := group.DeepCopy()
	group.Spec.TargetNamespaces = append(group.Spec.TargetNamespaces, other)
	require.NoError(t, cluster.Client.Patch(t.Context(), group, client.MergeFrom(before)))
	added := time.Now()
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, cluster.Client, other)) })
	t.Logf("FIGURE a namespace was covered %s after it was added to the OperatorGroup", time.Since(added).Round(10*time.Millisecond))
	require.False(t, calledIn(t, cluster.Client, stranger))
}

func TestCallsWebhooksInANamespaceThatStartsToMatch(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	team := map[string]string{"team": tn.Namespace}
	matched, later := tn.Other(team), tn.Other(nil)
	c := operator(1)
	grant(tn, c, tn.Namespace, matched, later)
	for _, target := range []string{matched, later} {
		tn.Grant(target, rbac.GetNamespaceRules(target)...)
	}
	tn.Create(&operatorsv1.OperatorGroup{
		ObjectMeta: tn.Meta("group"),
		Spec:       operatorsv1.OperatorGroupSpec{ServiceAccountName: env.AccountName, Selector: &metav1.LabelSelector{MatchLabels: team}},
	})
	install(tn, c)
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, cluster.Client, matched)) })
	require.False(t, calledIn(t, cluster.Client, later))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}}
	require.NoError(t, cluster.Client.Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"`+tn.Namespace+`"}}}`))))
	labeled := time.Now()
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, cluster.Client, later)) })
	t.Logf("FIGURE a namespace was covered %s after it was labeled", time.Since(labeled).Round(10*time.Millisecond))
}

// An OperatorGroup without an account has the same targets as one with an account: those that it lists or that its
// selector matches.
func TestCallsWebhooksInTheTargetsOnlyWithTheDefaultAccount(t *testing.T) {
	t.Parallel()
	c := startCluster(t, env.Options{Profile: manifests.ProfileCompat, Without: []string{names.ServiceAccountCatalog}})
	for name, group := range map[string]func(tn *env.Tenant, targets []string) operatorsv1.OperatorGroupSpec{
		"listed": func(_ *env.Tenant, targets []string) operatorsv1.OperatorGroupSpec {
			return operatorsv1.OperatorGroupSpec{TargetNamespaces: targets}
		},
		"selected": func(tn *env.Tenant, _ []string) operatorsv1.OperatorGroupSpec {
			return operatorsv1.OperatorGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": tn.Namespace}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tn := c.Tenant(t)
			target, stranger := tn.Other(map[string]string{"team": tn.Namespace}), tn.Other(nil)
			tn.Create(&operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group"), Spec: group(tn, []string{tn.Namespace, target})})
			provide(tn, tn.Namespace, target)
			install(tn, operator(1))
			tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, c.Client, target)) })
			require.False(t, calledIn(t, c.Client, stranger))
		})
	}
}

// provide creates the ServiceAccount and the permissions of the operator, which the default account only checks if a CSV was created by
// hand.
func provide(tn *env.Tenant, targets ...string) {
	tn.T.Helper()
	tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(pkg)})
	for _, target := range targets {
		meta := metav1.ObjectMeta{Namespace: target, Name: pkg}
		tn.Create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule("", "configmaps", "get")}})
		tn.Create(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: pkg},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tn.Namespace, Name: pkg}}})
	}
}

func TestTwoInstallsOfOneOperatorCoexist(t *testing.T) {
	t.Parallel()
	var tenants []*env.Tenant
	for range 2 {
		tn := cluster.Tenant(t)
		c := operator(1)
		grant(tn, c, tn.Namespace)
		tn.Group(env.AccountName, tn.Namespace)
		install(tn, c)
		tenants = append(tenants, tn)
	}
	for _, tn := range tenants {
		tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, cluster.Client, tn.Namespace)) })
	}
	deleted := &csv{ObjectMeta: tenants[0].Meta(nameOf(1))}
	require.NoError(t, cluster.Client.Delete(t.Context(), deleted))
	tenants[0].Eventually(func(ct *assert.CollectT) { assert.False(ct, calledIn(ct, cluster.Client, tenants[0].Namespace)) })
	require.True(t, calledIn(t, cluster.Client, tenants[1].Namespace))
}
