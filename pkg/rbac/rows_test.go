package rbac

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/test/differential/rows"
)

func TestRuleSemanticsTable(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range rows.All() {
		seen[row.Number] = true
		t.Run(fmt.Sprint(row.Number), func(t *testing.T) {
			l := given(t, row.Held...)
			v := l.Permissions(ServiceAccount("t1", "acct"), ClusterScope).Check(row.Wants)
			for i := 0; i < len(row.Writes) && v.Covered(); i++ {
				v = writing(t, l, row.Writes[i])
			}
			require.Equal(t, row.Verdict, label(v), "%+v", v)
			if !v.Covered() && v.Invalid == nil {
				require.NotEmpty(t, v.Missing, "missing rules are listed")
			}
		})
	}
	for i := range 69 {
		require.True(t, seen[i+1], "row %d", i+1)
	}
	require.Equal(t, MaxAtoms, rows.MaxAtoms)
}

// writing returns the verdict on whether the account may create the object.
func writing(t *testing.T, l Listers, obj any) Verdict {
	t.Helper()
	var g Grant
	var err error
	switch o := obj.(type) {
	case *rbacv1.Role:
		g = RoleGrant(&rbacv1.ClusterRole{ObjectMeta: o.ObjectMeta, Rules: o.Rules}, nil)
	case *rbacv1.ClusterRole:
		g = RoleGrant(o, nil)
	case *rbacv1.RoleBinding:
		g, err = BindingGrant(&rbacv1.ClusterRoleBinding{ObjectMeta: o.ObjectMeta, RoleRef: o.RoleRef, Subjects: o.Subjects}, l.RulesOf)
	case *rbacv1.ClusterRoleBinding:
		g, err = BindingGrant(o, l.RulesOf)
	}
	require.NoError(t, err)
	return g.Check(l.Permissions(ServiceAccount("t1", "acct"), g.Namespace))
}

// label returns the name that the table uses for the verdict.
func label(v Verdict) string {
	switch {
	case errors.Is(v.Invalid, ErrTooLarge):
		return rows.TooLarge
	case v.Invalid != nil:
		return rows.Invalid
	case v.Via != "":
		return "Covered by " + v.Via
	case v.Covered():
		return rows.Covered
	case v.Unresolved:
		return rows.Unresolved
	}
	return rows.Missing
}
