package preflight

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/rbac"
)

func TestAsksTheAPIServerAboutNamespacesIfRBACCannotBeRead(t *testing.T) {
	a := &authorizers{allowed: yes("seen get namespaces"), broken: yes("undecided get namespaces")}
	filter := NamespaceFilter{RBAC: rbac.Unreadable(errors.New("no")), Ask: a.review}
	account := bounded.Account
	got, err := filter.Gettable(t.Context(), account, []string{"hidden", "seen", "undecided"})
	require.Error(t, err, "the roles in a namespace that is no target would be removed")
	require.Empty(t, got)
	require.Len(t, a.asked, 3)
	got, err = filter.Gettable(t.Context(), account, []string{"hidden", "seen"})
	require.NoError(t, err)
	require.Equal(t, []string{"seen"}, got)
}
