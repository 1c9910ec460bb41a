package operatorgroup

import (
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// A ClusterRole belongs to one OperatorGroup of one namespace. Other groups, and groups in a later namespace with the same name,
// neither change nor delete it.
func TestAClusterRoleBelongsToOneGroup(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mine := owner{key: client.ObjectKey{Namespace: "t1", Name: "og"}, since: born, proofs: proofs.Keys()}
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "role", CreationTimestamp: metav1.NewTime(born.Add(time.Second))}}
	made, err := mine.own(role, &corev1.Namespace{})
	require.NoError(t, err)
	require.NoError(t, mine.Prove(made, made.DeepCopy()))
	require.NoError(t, mine.Check(made))

	group, namespace, later := mine, mine, mine
	group.key.Name, namespace.key.Namespace, later.since = "other", "t2", born.Add(time.Hour)
	for name, other := range map[string]owner{"another group": group, "another namespace": namespace, "a later namespace": later} {
		require.Error(t, other.Check(made), name)
		renamed := made.DeepCopy() // anyone who can write the ClusterRole can set its labels
		renamed.SetLabels(other.labels())
		require.Error(t, other.Check(renamed), name)
	}
	for _, lineage := range []ownerutil.Lineage{{Package: "og", Namespace: "t1"}, {Package: "og", Namespace: "t1", Direct: true}, {Extension: "og"}} {
		require.False(t, lineage.IsMark(mine.mark()), "%v", lineage)
	}
	unlabeled := made.DeepCopy()
	unlabeled.SetLabels(nil)
	require.Error(t, mine.Check(unlabeled))
	unproven := made.DeepCopy()
	unproven.SetAnnotations(nil)
	require.Error(t, mine.Check(unproven))
}

// ClusterRoles of an earlier namespace with the same name have the labels and proofs of its groups.
func TestClusterRolesOfAnEarlierNamespaceStay(t *testing.T) {
	c := newCluster(t)
	c.settle()
	require.NotEmpty(t, c.roles())
	want := c.roles()
	recorded.Edit(c.Server, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}, func(ns *corev1.Namespace) {
		ns.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
	})
	c.settle()
	require.Equal(t, ReasonRefusedByRemit, c.condition(ProvidedAPIsPublished).Reason)

	c.Delete(c.og)
	c.settle()
	require.Equal(t, want, c.roles())
}

// The permissions of the account in the cache decide what is written, so nothing is written as another account.
func TestWritesNothingAsAnAccountThatTheCacheDoesNotShow(t *testing.T) {
	c := newCluster(t)
	c.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "second"}})
	c.Lag(c.og)
	recorded.Edit(c.Server, given().Group, func(og *operatorsv1.OperatorGroup) { og.Spec.ServiceAccountName = "second" })
	_, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(given().Group)})
	require.NoError(t, err)
	for _, wrote := range c.Writes() {
		require.Contains(t, wrote, "remit: patch status of OperatorGroup t1/og")
	}
	require.Empty(t, c.labels("t2"))
}
