package catalogsource

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// The API server has checked that the author of an OperatorGroup may use the default account, but it does not check this for the
// authors of CatalogSources.
func TestRunsATenantsRegistryOnlyIfTheOperatorGroupUsesTheDefaultAccount(t *testing.T) {
	group := func(name, account string) client.Object {
		return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: account}}
	}
	account := func(namespace, name string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	}
	forAllNamespaces := scoped.Default{Account: types.NamespacedName{Namespace: "remit", Name: "default"}}
	forOther := scoped.Default{Account: forAllNamespaces.Account, Namespaces: []string{"other"}}
	for name, tt := range map[string]struct {
		by      scoped.Default
		objects []client.Object
		refusal string
	}{
		"no default account":                      {scoped.Default{}, []client.Object{group("a", "")}, `registries run only in the global catalog namespace "remit-catalogs"`},
		"no OperatorGroup":                        {forAllNamespaces, nil, `has no OperatorGroup`},
		"two OperatorGroups":                      {forAllNamespaces, []client.Object{group("a", ""), group("b", "")}, `has 2 OperatorGroups`},
		"an OperatorGroup with its own account":   {forAllNamespaces, []client.Object{group("a", "installer"), account("team", "installer")}, "OperatorGroup team/a names ServiceAccount installer"},
		"a default account that does not exist":   {forAllNamespaces, []client.Object{group("a", "")}, "not found"},
		"a default account for other namespaces":  {forOther, []client.Object{group("a", ""), account("remit", "default")}, "no default account is configured for its namespace"},
		"an OperatorGroup of the default account": {forAllNamespaces, []client.Object{group("a", ""), account("remit", "default")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, operatorsv1.AddToScheme(scheme))
			require.NoError(t, corev1.AddToScheme(scheme))
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.objects...).Build()
			accounts, err := scoped.NewClients(scoped.Options{Base: &rest.Config{Host: "http://127.0.0.1:1"}, Scheme: scheme, Mapper: live.RESTMapper()})
			require.NoError(t, err)
			s := &tenantServers{Options: &Options{Live: live, Default: tt.by, Accounts: accounts, GlobalNamespace: "remit-catalogs"}}
			_, err = s.forNamespace(t.Context(), "team")
			if tt.refusal == "" { // a token of the default account is requested
				require.Error(t, err)
				require.False(t, kit.Is[refused](err), "%v", err)
				return
			}
			require.True(t, kit.Is[refused](err), "%v", err)
			require.ErrorContains(t, err, tt.refusal)
		})
	}
}
