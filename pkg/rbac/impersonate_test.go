package rbac

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

var extension = scoped.Identity{Extension: "demo"}

func TestASyntheticUserHasThePermissionsOfItsGroups(t *testing.T) {
	l := given(t,
		clusterRole("own", "get :pods"), clusterBinding("own", ref("ClusterRole", "own"), user("olm:clusterextension:demo")),
		clusterRole("group", "list :pods"), clusterBinding("group", ref("ClusterRole", "group"), group("olm:clusterextensions")),
		clusterRole("all", "watch :pods"), clusterBinding("all", ref("ClusterRole", "all"), group("system:authenticated")),
		role("ns", "there", "patch :pods"), binding("ns", "there", ref("Role", "there"), user("olm:clusterextension:demo")),
		clusterRole("not", "delete :pods"), clusterBinding("not", ref("ClusterRole", "not"),
			user("olm:clusterextension:other"), group("olm:clusterextension:demo"), group("system:serviceaccounts"), account("olm", "clusterextension:demo")),
	)
	for namespace, want := range map[string][]rbacv1.PolicyRule{
		ClusterScope: rules("get :pods", "list :pods", "watch :pods"),
		"ns":         rules("get :pods", "list :pods", "watch :pods", "patch :pods"),
	} {
		got, err := l.EffectiveRules(SubjectOf(extension), namespace)
		require.NoError(t, err)
		require.ElementsMatch(t, want, got)
	}
	scopes, err := l.Scopes(SubjectOf(extension))
	require.NoError(t, err)
	require.Equal(t, []string{ClusterScope, "ns"}, scopes)
}

func TestTheSubjectOfAnAccountIsItsServiceAccount(t *testing.T) {
	i := scoped.Account{Namespace: "t1", Name: "acct", UID: "1"}.Identity()
	require.Equal(t, ServiceAccount("t1", "acct"), SubjectOf(i))
}

func TestCanImpersonateInEachForm(t *testing.T) {
	remit := ServiceAccount("remit", "remit-extension")
	for _, how := range []scoped.Impersonation{scoped.ImpersonationConstrained, scoped.ImpersonationLegacy} {
		objs := scoped.ExtensionEnrollment(extension, "remit", how)
		l := given(t, objs[0], objs[1])
		can, err := l.CanImpersonate(remit, extension)
		require.NoError(t, err)
		require.True(t, can, how)
		can, err = l.CanImpersonate(remit, scoped.Identity{Extension: "other"})
		require.NoError(t, err)
		require.False(t, can, how)
		can, err = l.CanImpersonate(ServiceAccount("remit", "remit-olm"), extension)
		require.NoError(t, err)
		require.False(t, can, how)

		enrollment, ok := objs[0].(*rbacv1.ClusterRole)
		require.True(t, ok)
		enrollment.Rules = enrollment.Rules[:1]
		can, err = l.CanImpersonate(remit, extension)
		require.NoError(t, err)
		require.False(t, can, "the group is required as well")
	}
	_, err := Unreadable(errors.New("forbidden")).CanImpersonate(remit, extension)
	require.ErrorIs(t, err, ErrUnreadable)
}
