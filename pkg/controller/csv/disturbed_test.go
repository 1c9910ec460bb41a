package csv

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/rbac"
)

// Users of a target can delete the operator's Role after it is written, and before it is bound.
func TestWhoDeletesRolesOfATargetDoesNotStopTheInstall(t *testing.T) {
	t.Parallel()
	roles := schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	for name, refusal := range map[string]error{
		"binding a Role that does not exist": apierrors.NewNotFound(roles, "demo"),
		"a change in the meantime":           apierrors.NewConflict(roles, "demo", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			targets("t1", "t2", "t3")(w)
			const binding = "acct: apply RoleBinding t2/demo.v1.0.0-demo-#"
			w.Refuse(binding, refusal)
			got := w.settle()
			require.Empty(t, got.failed)
			require.Subset(t, got.writes, []string{"acct: apply RoleBinding t3/demo.v1.0.0-demo-#", "acct: apply RoleBinding t1/demo.v1.0.0-demo-#", deploys})
			available("demo")(w)
			got = w.settle()
			require.Equal(t, phaseSucceeded, got.phase, got.message)
			require.Contains(t, got.message, "the operator gets no permissions in namespace t2: it was changed or deleted while it was written")
			require.Positive(t, got.after, "it is tried again")

			w.Refuse(binding, nil)
			passing(maxBackoff)(w)
			require.Contains(t, w.settle().writes, binding)
		})
	}
}

// They can also delete it each time.
func TestWhatIsRestoredInATargetDelaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	targets("t1", "t2")(w)
	installed(w)
	for range 3 {
		for _, role := range w.roles("t2") {
			if strings.HasPrefix(role.Name, "demo.v1.0.0-demo-") {
				w.Delete(role)
			}
		}
		w.Delete(deploymentOf("demo"))
		w.Writes()
		var writes []string
		for range 3 { // the phases Failed and Pending, and the install
			for _, role := range w.roles("t2") {
				if strings.HasPrefix(role.Name, "demo.v1.0.0-demo-") {
					w.Delete(role)
				}
			}
			_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
			require.NoError(t, err)
			writes = append(writes, w.Writes()...)
		}
		require.Contains(t, strings.Join(writes, "\n"), "acct: apply Role t2/demo.v1.0.0-demo-#")
		require.Contains(t, strings.Join(writes, "\n"), deploys)
		available("demo")(w)
		require.Equal(t, phaseSucceeded, w.settle().phase)
	}
}

// The cache shows later what was written.
func TestWhatIsRestoredInATargetIsNotRequired(t *testing.T) {
	t.Parallel()
	s := &scope{occupied: map[string]error{"t1": errors.New("occupied")}, withheld: map[string]bool{"t2": true}}
	s.restore("t3", true)
	s.restore("t4", false)
	for namespace, want := range map[string]bool{"t1": true, "t2": true, "t3": true, "t4": false, rbac.ClusterScope: false} {
		require.Equal(t, want, s.isWithout(namespace), namespace)
	}
}

// Each object that an earlier turn has written and the cache does not show counts.
func TestEachObjectOfAnEarlierTurnLags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(60)(w)
	hides := true
	w.options.Client = unseen{w.options.Client, &hides}
	w.turn()
	w.turn()
	w.turn()
	hides = false
	got := w.settle()
	require.Equal(t, phaseInstalling, got.phase, got.message)
	available("demo")(w)
	require.Equal(t, phaseSucceeded, w.settle().phase)

	var s scope
	role := func(namespace string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}
	}
	s.turn.before = map[string]outcome{turnKey(taskWrite, role("a")): {changed: true}, turnKey(taskWrite, role("b")): {changed: true}, turnKey(taskWrite, role("c")): {}}
	for namespace, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false} {
		_, err := s.turn.do(taskWrite, role(namespace), func() (bool, error) { return false, nil })
		require.NoError(t, err)
		require.Equal(t, want, s.turn.hasChanged(taskWrite, role(namespace)), namespace)
	}
}
