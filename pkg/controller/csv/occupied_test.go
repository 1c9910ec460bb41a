package csv

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roleIn returns a Role with the name and namespace of the one that the demo gets in a namespace.
func roleIn(t *testing.T, namespace string) *rbacv1.Role {
	t.Helper()
	other := newWorld(t)
	targets("t1", "t2", "t3")(other)
	other.settle()
	for _, role := range other.roles(namespace) {
		if strings.HasPrefix(role.Name, "demo.v1.0.0-demo-") {
			return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name}}
		}
	}
	require.Fail(t, "the demo has no Role")
	return nil
}

func TestACollisionInATargetAffectsOnlyThisTarget(t *testing.T) {
	t.Parallel()
	const (
		note = "; the operator gets no permissions in namespace t2: "
		role = "acct: apply Role t2/demo.v1.0.0-demo-#" // sealed first
	)
	bindsIt := func(t *testing.T, w *world) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "theirs"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: roleIn(t, "t2").Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}}}
		w.Put(b)
		return b
	}
	t.Run("a Role", func(t *testing.T) {
		t.Parallel()
		w, theirs := newWorld(t), roleIn(t, "t2")
		targets("t1", "t2", "t3")(w)
		w.Put(theirs)
		got := w.settle()
		require.Equal(t, phaseInstalling, got.phase, got.message)
		require.Subset(t, got.writes, []string{"acct: apply Role t3/demo.v1.0.0-demo-#", "acct: apply RoleBinding t3/demo.v1.0.0-demo-#", "acct: apply RoleBinding t1/demo.v1.0.0-demo-#", deploys})
		require.NotContains(t, strings.Join(got.writes, "\n"), " t2/")
		available("demo")(w)
		got = w.settle()
		require.Equal(t, phaseSucceeded, got.phase, got.message)
		require.Contains(t, got.message, note+"Role t2/demo.v1.0.0-demo-# already exists")
		require.Empty(t, got.unmet)

		w.Delete(theirs)
		require.Equal(t, runs("", completed, role, role, "acct: apply RoleBinding t2/demo.v1.0.0-demo-#"), w.settle())
	})
	t.Run("a binding of the operator's Role", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		targets("t1", "t2")(w)
		theirs := bindsIt(t, w)
		settled(w)
		available("demo")(w)
		got := w.settle()
		require.Equal(t, phaseSucceeded, got.phase, got.message)
		require.Contains(t, got.message, note+"a RoleBinding in namespace t2")
		require.Empty(t, got.writes)
		w.Delete(theirs)
		require.Equal(t, runs("", completed, role, role, "acct: apply RoleBinding t2/demo.v1.0.0-demo-#"), w.settle())
	})
	t.Run("a Role that replaces the operator's", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		targets("t1", "t2")(w)
		installed(w)
		theirs := roleIn(t, "t2")
		w.Delete(theirs.DeepCopy())
		w.Put(theirs)
		got := w.settle()
		require.Equal(t, phaseSucceeded, got.phase, got.message)
		require.Contains(t, got.message, note+"Role t2/demo.v1.0.0-demo-# already exists")
		require.Empty(t, got.writes)
	})
	t.Run("a Role in the operator's own namespace", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		targets("t1", "t2")(w)
		w.Put(roleIn(t, "t1"))
		got := w.settle()
		require.Equal(t, phasePending, got.phase)
		require.Contains(t, got.message, "Role t1/demo.v1.0.0-demo-# already exists")
		require.Empty(t, got.writes)
	})
}

// A user of a target can fill a quota there, or delete the namespace. No watch reports when it accepts objects again.
func TestARefusalInATargetAffectsOnlyThisTarget(t *testing.T) {
	t.Parallel()
	const role = "acct: apply Role t2/demo.v1.0.0-demo-#"
	refusal := func(why string) error {
		return apierrors.NewForbidden(rbacv1.Resource("roles"), "demo", errors.New(why))
	}
	w := newWorld(t)
	targets("t1", "t2", "t3")(w)
	w.Refuse(role, refusal("exceeded quota: objects"))
	settled(w)
	available("demo")(w)
	got := w.settle()
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	require.Contains(t, got.message, "; the operator gets no permissions in namespace t2: ")
	require.Contains(t, got.message, "exceeded quota: objects")
	require.NotZero(t, got.after)
	w.Refuse(role, nil)
	got = w.settle()
	require.Subset(t, got.writes, []string{role, "acct: apply RoleBinding t2/demo.v1.0.0-demo-#"})
	require.NotContains(t, got.message, "gets no permissions")

	w = newWorld(t)
	targets("t1", "t2", "t3")(w)
	w.Refuse(role, refusal(`user "acct" is attempting to grant RBAC permissions not currently held`))
	require.Equal(t, phasePending, w.settle().phase)
}
