package authorizer

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const tick = 50 * time.Millisecond

func TestSendsAccessReviewsIfRBACCannotBeRead(t *testing.T) {
	withoutRBAC(t)
	tn := subscribed(t, nil)
	message := tn.PermissionsMissing()
	require.Contains(t, message, `cannot get resource "greetings"`)
	require.Contains(t, message, `cannot create resource "serviceaccounts"`)
	var d preflight.Document
	decode(t, tn.Report().Data[preflight.FileReport], &d)
	require.Len(t, d.Notes, 1)
	require.Contains(t, d.Notes[0], "RBAC cannot be read, so the API server was asked instead: reading RBAC is not allowed: ")
	for _, s := range d.Missing {
		for _, rule := range s.Rules {
			require.Equal(t, []preflight.Source{preflight.SourceReview}, rule.Sources)
		}
	}
	tn.PlanSays(names.ReasonAccountLacksPermissions, "is missing")
	tn.NothingWritten()

	tn.Paste(message)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
}

// withoutRBAC revokes bin/catalog's permission to read RBAC and restarts the program. After the test, it grants the permission
// again and restarts the program, because the tests of this package run in any order.
func withoutRBAC(t *testing.T) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: names.ServiceAccountCatalog}, role))
	rest := slices.DeleteFunc(slices.Clone(role.Rules), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.APIGroups, rbacv1.GroupName) })
	require.NotEqual(t, role.Rules, rest)
	restartWith(t, rest, false)
	t.Cleanup(func() { restartWith(t, role.Rules, true) })
}

// restartWith sets the rules of bin/catalog's ClusterRole, which determine whether it can read RBAC, and restarts the
// program.
func restartWith(t *testing.T, rules []rbacv1.PolicyRule, readable bool) {
	t.Helper()
	ctx := context.Background() // t.Context() is canceled before cleanups run
	role := &rbacv1.ClusterRole{}
	require.NoError(t, cluster.Client.Get(ctx, client.ObjectKey{Name: names.ServiceAccountCatalog}, role))
	before := role.DeepCopy()
	role.Rules = rules
	require.NoError(t, cluster.Client.Patch(ctx, role, client.MergeFrom(before)))
	self := cluster.As(t, "system:serviceaccount:remit:"+names.ServiceAccountCatalog)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, readable, self.List(ctx, &rbacv1.RoleList{}) == nil, "the API server's authorizer has not observed the change yet")
	}, env.Patience, tick)

	old := map[types.UID]bool{}
	for _, pod := range pods(t) {
		old[pod.UID] = true
		require.NoError(t, cluster.Client.Delete(ctx, &pod))
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, pod := range pods(c) {
			assert.False(c, old[pod.UID])
			assert.True(c, slices.ContainsFunc(pod.Status.Conditions, func(p corev1.PodCondition) bool {
				return p.Type == corev1.PodReady && p.Status == corev1.ConditionTrue
			}))
		}
		assert.NotEmpty(c, pods(c))
	}, env.Patience, tick)
}

// pods returns the Pods of bin/catalog.
func pods(t require.TestingT) []corev1.Pod {
	list := &corev1.PodList{}
	require.NoError(t, cluster.Client.List(context.Background(), list, client.InNamespace(names.DefaultNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": names.ServiceAccountCatalog}))
	return list.Items
}
