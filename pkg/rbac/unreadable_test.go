package rbac

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestUnreadableListersFailEveryQuery(t *testing.T) {
	l := Unreadable(errors.New("roles is forbidden"))
	tracked, done := (&Interests[string]{}).Track("asker", l)
	defer done()
	for _, l := range []Listers{l, tracked} {
		h := l.Permissions(ServiceAccount("ns", "a"), "ns")
		require.Empty(t, h.Rules)
		require.ErrorIs(t, errors.Join(h.ReadErrors...), ErrUnreadable)
		require.ErrorContains(t, errors.Join(h.ReadErrors...), "reading RBAC is not allowed: roles is forbidden")
		for _, kind := range []string{"Role", "ClusterRole"} {
			_, err := l.RulesOf(rbacv1.RoleRef{Kind: kind, Name: "r"}, "ns")
			require.ErrorIs(t, err, ErrUnreadable)
		}
		require.False(t, l.Readable())
		_, err := l.Gettable(ServiceAccount("ns", "a"), []string{"ns"})
		require.ErrorIs(t, err, ErrUnreadable)
		_, err = l.Roles.List(labels.Everything())
		require.ErrorIs(t, err, ErrUnreadable)
	}
}

func TestReadableListersAreReportedAsReadable(t *testing.T) {
	w := newWorld(t)
	tracked, done := (&Interests[string]{}).Track("asker", w.Listers)
	defer done()
	require.True(t, w.Readable())
	require.True(t, tracked.Readable())
}
