package operatorgroup

import (
	"context"
	"fmt"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env/recorded"
)

// another creates an OperatorGroup in another namespace.
func (c *cluster) another(uid types.UID) *operatorsv1.OperatorGroup {
	og := given().Group
	og.Namespace, og.Name, og.UID, og.ResourceVersion = "elsewhere", string(uid), uid, ""
	og.Spec.TargetNamespaces = []string{"elsewhere"}
	c.Put(og)
	return og
}

// recreate replaces the OperatorGroup with one that has the same name and another UID, before any reconcile.
func (c *cluster) recreate(uid types.UID) {
	c.Delete(c.og)
	og := given().Group
	og.UID, og.Spec.TargetNamespaces = uid, []string{"t2"}
	c.Put(og)
	c.og = og
}

// label creates a Namespace with labels of OperatorGroups.
func (c *cluster) label(namespace string, uids ...string) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"team": "a"}}}
	for _, uid := range uids {
		ns.Labels[labelPrefix+uid] = ""
	}
	c.Put(ns)
}

// Users who can create and delete OperatorGroups could otherwise fill the labels of any Namespace that the default account may patch.
func TestLabelsOfReplacedGroupsAreRemoved(t *testing.T) {
	c := newCluster(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	c.r.Clock = clock
	c.settle()
	for i := range 5 {
		uid := fmt.Sprint("uid-", i)
		c.recreate(types.UID(uid))
		clock.SetTime(clock.Now().Add(sweepPause))
		c.settle()
		require.Equal(t, map[string]string{labelPrefix + uid: ""}, c.labels("t2"))
	}
}

// The OperatorGroup was deleted while the program did not run, or no account could remove its labels then.
func TestLabelsOfGroupsThatDoNotExistAreRemoved(t *testing.T) {
	c := newCluster(t)
	c.another("elsewhere")
	c.label("t3", "gone", "elsewhere")
	c.label("t4", "gone", "earlier")
	c.label("t5", "elsewhere")
	wrote := c.settle()
	require.Contains(t, wrote, "acct: patch Namespace t4")
	require.NotContains(t, wrote, "acct: patch Namespace t5")
	require.Equal(t, map[string]string{"team": "a", labelPrefix + "elsewhere": ""}, c.labels("t3"))
	require.Equal(t, map[string]string{"team": "a"}, c.labels("t4"))

	t.Log("no group exists, and the program was restarted")
	other := newCluster(t)
	other.r.Default.Account = types.NamespacedName{Namespace: "t1", Name: "acct"}
	other.label("t3", "gone")
	other.Delete(other.og)
	other.settle()
	require.Equal(t, map[string]string{"team": "a"}, other.labels("t3"))
}

// A failure to remove labels affects neither other Namespaces nor the OperatorGroup.
func TestLabelsThatTheAccountCannotRemoveStay(t *testing.T) {
	for _, refusal := range []error{errorOf("namespaces"), apierrors.NewBadRequest("an admission webhook denied the request")} {
		c := newCluster(t)
		c.label("t3", "gone")
		c.label("t4", "gone")
		c.Refuse("acct: patch Namespace t3", refusal)
		_, err := c.r.removeOrphaned(t.Context(), c.Client("acct"), map[string][]string{"t3": {labelPrefix + "gone"}, "t4": {labelPrefix + "gone"}}, nil)
		require.Equal(t, !apierrors.IsForbidden(refusal), err != nil, err)
		require.Contains(t, c.labels("t3"), labelPrefix+"gone")
		require.NotContains(t, c.labels("t4"), labelPrefix+"gone")
	}

	t.Log("a refusal does not affect the OperatorGroup")
	c := newCluster(t)
	c.label("t3", "gone")
	c.Refuse("acct: patch Namespace t3", errorOf("namespaces"))
	c.settle()
	require.Equal(t, ReasonLabeled, c.condition(TargetsLabeled).Reason)

	t.Log("an account without permission sends no requests")
	other := newCluster(t)
	other.label("t3", "gone")
	other.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"t2"}, Verbs: []string{"patch"}})
	require.Equal(t, []string{labelT2}, other.settle())
}

// The caches of Namespaces and OperatorGroups are not equally recent.
func TestLabelsOfGroupsThatTheAPIServerKnowsStay(t *testing.T) {
	c := newCluster(t)
	c.label("t3", "new")
	c.Before("acct: patch Namespace t3", func() { t.Error("the label is removed") })
	c.r.Client = unaware{c.r.Client}
	c.another("new")
	c.settle()
	require.Contains(t, c.labels("t3"), labelPrefix+"new")
}

// unaware is a cache that does not contain OperatorGroups of other namespaces yet.
type unaware struct{ client.Client }

func (u unaware) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*operatorsv1.OperatorGroupList); ok {
		opts = append(opts, client.InNamespace("t1"))
	}
	return u.Client.List(ctx, list, opts...)
}

// One reconcile writes to a limited number of Namespaces, and each account is used at most once in some time, because the
// OperatorGroups of the cluster are listed each time.
func TestLabelsAreRemovedInTurns(t *testing.T) {
	c := newCluster(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	c.r.Clock = clock
	c.settle()
	for i := range maxSwept + 1 {
		c.label(fmt.Sprintf("n%04d", i), "gone")
	}
	remaining := func() int {
		orphaned, err := c.r.orphaned(t.Context())
		require.NoError(t, err)
		return len(orphaned)
	}
	clock.SetTime(clock.Now().Add(sweepPause))
	result, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.og)})
	require.NoError(t, err)
	require.Equal(t, cacheLag, result.RequeueAfter)
	require.Equal(t, 1, remaining())
	c.Requests()

	result, err = c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.og)})
	require.NoError(t, err)
	require.Equal(t, sweepPause, result.RequeueAfter)
	require.Empty(t, c.Requests(), "nothing is listed")
	clock.SetTime(clock.Now().Add(sweepPause))
	c.settle()
	require.Zero(t, remaining())
}

func TestANamespaceWithManyLabelsGetsNoMore(t *testing.T) {
	c := newCluster(t)
	uids := make([]string, 0, maxLabels)
	for i := range maxLabels {
		uids = append(uids, string(c.another(types.UID(fmt.Sprint("other-", i))).UID))
	}
	c.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t2"}})
	c.label("t2", uids...)
	require.NotContains(t, c.settle(), labelT2)
	got := c.condition(TargetsLabeled)
	require.Equal(t, ReasonRefusedByRemit, got.Reason)
	require.Contains(t, got.Message, "Namespace t2: it has 100 labels olm.operatorgroup.uid/*, and Remit adds no more")

	t.Log("one of the others is deleted")
	c.Delete(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: uids[0]}})
	c.settle()
	require.Contains(t, c.labels("t2"), labelPrefix+"og-uid")
	require.Len(t, c.labels("t2"), maxLabels+1)
	require.Equal(t, ReasonLabeled, c.condition(TargetsLabeled).Reason)
}

// A group that was replaced during a reconcile must not be labeled with a UID that no longer exists.
func TestLabelsNothingForAGroupThatWasReplaced(t *testing.T) {
	replace := func(c *cluster) {
		c.Delete(c.og)
		og := given().Group
		og.UID, og.Spec.TargetNamespaces = "new", []string{"t3"}
		c.Put(og)
	}
	for name, row := range map[string]struct {
		given func(*cluster)
		want  []string
	}{
		"according to the API server": {given: func(c *cluster) { c.Lag(c.og); replace(c) }},
		"between two labels": {want: []string{labelT2}, given: func(c *cluster) {
			recorded.Edit(c.Server, c.og, func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = []string{"t2", "t3"} })
			c.Before(labelT2, func() { replace(c) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.label("t3")
			c.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"patch"}})
			row.given(c)
			result, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.og)})
			require.NoError(t, err)
			require.Equal(t, cacheLag, result.RequeueAfter, "the group is read again")
			require.ElementsMatch(t, row.want, c.Writes())
		})
	}
}
