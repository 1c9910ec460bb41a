package csv

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/test/env/recorded"
)

// No watch reports when a policy, a webhook or a quota no longer refuses the roles of an operator in its own namespace.
func TestARefusedRoleIsTriedAgain(t *testing.T) {
	t.Parallel()
	const role = "acct: apply Role t1/demo.v1.0.0-demo-#"
	for name, refusal := range map[string]error{
		"a policy without a reason": recorded.ByAPolicy("roles", "demo"),
		"a webhook without a code":  recorded.ByAWebhook(),
		"a quota":                   apierrors.NewForbidden(rbacv1.Resource("roles"), "demo", errors.New("exceeded quota: objects")),
	} {
		t.Run("before the install: "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Refuse(role, refusal)
			got := w.settle()
			require.Equal(t, phasePending, got.phase)
			require.Contains(t, got.message, refusal.Error())
			require.NotZero(t, got.after)
			w.Refuse(role, nil)
			require.Contains(t, w.settle().writes, role)
		})
		t.Run("after the install: "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			installed(w)
			w.Refuse(role, refusal)
			withoutRoles(w)
			got := w.settle()
			require.Equal(t, phaseFailed, got.phase)
			require.Equal(t, reasonRequirementsNotMet, got.reason)
			require.Contains(t, got.message, refusal.Error())
			require.NotZero(t, got.after)
			w.Refuse(role, nil)
			got = w.settle()
			require.Contains(t, got.writes, role)
			require.Equal(t, phaseSucceeded, got.phase, got.message)
		})
	}
}
