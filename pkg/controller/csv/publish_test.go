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
	installedBy(directLineage(w.csv))(w)
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

// installedBy makes the API of the demo one that a lineage has installed.
func installedBy(lineage ownerutil.Lineage) change {
	return func(w *world) {
		crd := things()
		proofs.Mark(crd, ownerutil.Owner{Lineage: lineage, Proofs: proofs.Keys()})
		w.Put(crd)
	}
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

// A CSV can list the API of another operator as owned. The escalation check of the API server does not stop it if the
// account may use that API, as the default account may use all.
func TestPublishesOnlyAPIsOfTheLineage(t *testing.T) {
	for name, account := range map[string]change{
		"as the group's account": func(*world) {},
		"as the default account": func(w *world) {
			w.options.Default = scoped.Default{Account: client.ObjectKey{Namespace: "t1", Name: "acct"}}
			w.Put(group("og", "", "t1"))
			identified(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, roles := publishing(t, account, func(w *world) { w.Put(things()) })
			require.Empty(t, roles, "a user installed the API")
			_, roles = publishing(t, account, installedBy(ownerutil.Lineage{Package: "other", Namespace: "t2"}))
			require.Empty(t, roles)
			_, roles = publishing(t, account)
			require.Equal(t, allThingsRoles, roles)
		})
	}
}
