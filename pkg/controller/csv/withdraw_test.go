package csv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/step/execute"
)

// operatorRole returns the demo's Role in a namespace, and nil if there is none.
func (w *world) operatorRole(namespace string) *rbacv1.Role {
	for _, role := range w.roles(namespace) {
		if strings.HasPrefix(role.Name, "demo.v1.0.0-demo-") {
			return role
		}
	}
	return nil
}

// bindingWhenFilled makes a user of a target bind the demo's Role when it gets its rules, and then keep the account from removing them.
func bindingWhenFilled(w *world) {
	const request = "acct: apply Role watched/demo.v1.0.0-demo-#"
	w.Before(request, func() { // it is sealed
		w.Before(request, func() { // it gets its rules
			role := w.operatorRole("watched").Name
			w.Put(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "watched", Name: "theirs"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}}})
			forbidden := apierrors.NewForbidden(rbacv1.Resource("roles"), role, nil)
			w.Refuse(request, forbidden) // from the next one
			w.Refuse("acct: patch Role watched/demo.v1.0.0-demo-#", forbidden)
			expelled("watched")(w)
		})
	})
}

// Whoever bound a Role while it got its rules may have revoked the account's permission to remove them.
func TestTheRulesOfARoleThatWasNotConfirmedAreRemovedByOthers(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]struct {
		identity change
		want     string
	}{
		"the default account":       {func(w *world) { defaultIs("other")(w) }, "other: patch Role watched/demo.v1.0.0-demo-#"},
		"the identity for removals": {withRemover, "remover: delete Role watched/demo.v1.0.0-demo-#"},
		"nobody":                    {func(*world) {}, ""},
	} {
		t.Run(name, func(t *testing.T) { // one after the other, and in a namespace that no other test has: unconfirmed Roles are remembered by name
			w := newWorld(t)
			given.identity(w)
			admitted("t1", "watched")(w)
			bindingWhenFilled(w)
			got := w.settle()
			require.NotContains(t, strings.Join(got.writes, "\n"), "RoleBinding watched/demo")
			if given.want != "" {
				require.Contains(t, got.writes, given.want)
			}
			role := w.operatorRole("watched")
			isEffective := role != nil && len(role.Rules) > 0
			require.Equal(t, given.want == "", isEffective)
			require.Equal(t, isEffective, role != nil && execute.IsUnconfirmed(role, "Role"))
		})
	}
}
