package scoped

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestRemitsOwnServiceAccountsAreNoAccounts(t *testing.T) {
	for _, name := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension, names.ServiceAccountPackageServer, names.ServiceAccountRemover} {
		og := group("og", name)
		from := reader(t, og, serviceAccount(og.Namespace, name))
		lookup := Default{Remit: og.Namespace}.Lookup(from)
		_, err := lookup.AccountOf(t.Context(), og)
		require.Equal(t, AccountReserved, ReasonOf(err), name)
		require.ErrorContains(t, err, "ServiceAccount "+og.Namespace+"/"+name+" belongs to Remit itself, and nothing is installed as it")
		bound, err := lookup.Bound(t.Context(), og.Namespace)
		require.NoError(t, err)
		require.Empty(t, bound.Accounts)

		_, err = Default{Remit: "elsewhere"}.Lookup(from).AccountOf(t.Context(), og)
		require.NoError(t, err, name)
	}
	require.Nil(t, CheckReserved(types.NamespacedName{Namespace: "remit", Name: "remit-default"}, "remit"))
	require.Nil(t, CheckReserved(types.NamespacedName{Name: names.ServiceAccountOLM}, ""))
}
