package csv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/proofs"
)

// publishing installs the demo in a world without the ClusterRoles of its API, and returns the writes of ClusterRoles.
func publishing(t *testing.T, given ...change) (*world, []string) {
	t.Helper()
	w := newWorld(t)
	w.Delete(thingsRoles()...)
	for _, c := range given {
		c(w)
	}
	w.settle()
	available("demo")(w)
	out := w.settle()
	require.Equal(t, phaseSucceeded, out.phase, out.message)
	var roles []string
	for _, write := range append(out.writes, w.settle().writes...) {
		if strings.Contains(write, " ClusterRole things.example.com") {
			roles = append(roles, write)
		}
	}
	return w, roles
}

var allThingsRoles = []string{
	"acct: apply ClusterRole things.example.com-v1-admin", "acct: apply ClusterRole things.example.com-v1-edit",
	"acct: apply ClusterRole things.example.com-v1-view", "acct: apply ClusterRole things.example.com-v1-crdview",
}

func TestPublishesItsAPIsAsTheAccount(t *testing.T) {
	w, roles := publishing(t)
	require.Equal(t, allThingsRoles, roles)
	w.Get(w.csv)
	require.Contains(t, w.csv.Finalizers, "operators.coreos.com/csv-cleanup")
	require.Empty(t, w.settle().writes)

	for _, role := range thingsRoles() {
		w.Get(role)
		require.Equal(t, "demo.v1.0.0", role.GetLabels()["olm.owner"])
	}
}

func TestPublishesOnlyWhatTheAccountHas(t *testing.T) {
	_, roles := publishing(t, may(
		rbacv1.PolicyRule{APIGroups: []string{"", "apps", "operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings", "clusterroles"}, Verbs: []string{"get", "create", "patch", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"things"}, Verbs: []string{"get", "list", "watch"}},
	))
	require.Equal(t, []string{"acct: apply ClusterRole things.example.com-v1-view"}, roles)
}

func TestLeavesRolesOfOtherOwnersUnchanged(t *testing.T) {
	_, roles := publishing(t, with(thingsRoles()[1]))
	require.NotContains(t, roles, allThingsRoles[1])
	require.Len(t, roles, 3)
}

// The default account has all permissions, so the escalation check of the API server does not stop a bundle that lists
// the API of another operator as owned.
func TestTheDefaultAccountPublishesOnlyAPIsOfTheLineage(t *testing.T) {
	asDefault := func(w *world) {
		w.options.Default = scoped.Default{Account: client.ObjectKey{Namespace: "t1", Name: "acct"}}
		w.Put(group("og", "", "t1"))
	}
	_, roles := publishing(t, asDefault)
	require.Empty(t, roles)

	_, roles = publishing(t, asDefault, func(w *world) {
		crd := things()
		proofs.Mark(crd, ownerutil.Owner{Lineage: directLineage(w.csv), CSV: w.csv.Name, Proofs: proofs.Keys()})
		w.Put(crd)
	})
	require.Equal(t, allThingsRoles, roles)
}
