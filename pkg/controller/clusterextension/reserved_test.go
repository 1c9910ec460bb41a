package clusterextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// An extension in Remit's namespace can name Remit's own ServiceAccounts, and nothing acts as them for it.
func TestRemitsOwnServiceAccountsAreNoIdentities(t *testing.T) {
	t.Parallel()
	r := &Reconciler{Options: Options{Namespace: "remit"}}
	for _, name := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension, names.ServiceAccountPackageServer, names.ServiceAccountRemover} {
		identity := scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "remit", Name: name})
		identity.Account.UID = "uid"
		_, err := r.clientOf(t.Context(), identity)
		require.Equal(t, scoped.AccountReserved, scoped.ReasonOf(err), name)
		require.NotNil(t, r.reserved(identity))
		identity.Account.Namespace = "team"
		require.Nil(t, r.reserved(identity), name)
	}
	_, err := r.clientOf(t.Context(), scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "remit", Name: "installer"}))
	require.Equal(t, scoped.AccountMissing, scoped.ReasonOf(err))
}
