package csv

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// crowdedBy binds roles with more rules than Remit evaluates to the demo's ServiceAccount in a namespace, as its users can.
func crowdedBy(namespace string) change {
	return func(w *world) {
		const size = 50_000
		var objs []client.Object
		for n := range rbac.MaxValues/size + 1 {
			at := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("crowd-", n)}
			rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}
			for i := range size {
				rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint("c", n, "-", i))
			}
			objs = append(objs, &rbacv1.Role{ObjectMeta: at, Rules: []rbacv1.PolicyRule{rule}}, &rbacv1.RoleBinding{
				ObjectMeta: at, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: at.Name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "demo"}},
			})
		}
		w.Put(objs...)
	}
}

// Users of a target can bind any number of rules to the operator's ServiceAccount there.
func TestWhoCrowdsATargetDoesNotStopTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	targets("t1", "t2", "t3")(w)
	installed(w)
	crowdedBy("t2")(w)
	got := w.settle()
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	require.Empty(t, got.unmet)

	w.Delete(w.operatorBinding("t2"))
	got = w.settle()
	require.NotNil(t, w.operatorBinding("t2"), "it is restored")
	require.Equal(t, phaseSucceeded, got.phase, got.message)
}

// Users of the own namespace are those of the operator.
func TestWhoCrowdsTheOwnNamespaceStopsTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	targets("t1", "t2", "t3")(w)
	installed(w)
	crowdedBy("t1")(w)
	got := w.settle()
	require.NotEqual(t, phaseSucceeded, got.phase, got.message)
}

func TestWhatIsMissingInACrowdedTargetIsMissing(t *testing.T) {
	t.Parallel()
	get, list := rule("", "pods", "get"), rule("", "pods", "list")
	for scope, want := range map[string]bool{"t1": false, "t2": true} {
		q := question{bound: func(at string) (rbac.Permissions, bool) {
			return rbac.Permissions{Namespace: at, Rules: []rbacv1.PolicyRule{get}}, at == "t2"
		}}
		require.Equal(t, want, q.hasBound(scope, []rbacv1.PolicyRule{get}))
		require.False(t, q.hasBound(scope, []rbacv1.PolicyRule{get, list}))
		require.False(t, question{}.hasBound(scope, []rbacv1.PolicyRule{get}))
	}
}
