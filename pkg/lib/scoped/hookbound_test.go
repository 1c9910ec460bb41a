package scoped

import (
	"fmt"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func grouped(name, account string) client.Object {
	og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name}}
	og.Spec.ServiceAccountName = account
	return og
}

// recorded returns a ClusterServiceVersion that records an account.
func recorded(name, account string, copiedFrom ...string) client.Object {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name, Annotations: map[string]string{names.AnnotationAccount: account}}}
	for _, from := range copiedFrom {
		csv.Labels = map[string]string{names.LabelCopiedFrom: from}
	}
	return csv
}

func lookupOf(t *testing.T, by Default, objs ...client.Object) Lookup {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, corev1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	return by.Lookup(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build())
}

func TestRecordedAccountsBoundTheWebhooksOfANamespaceWithoutAnAccount(t *testing.T) {
	const none = "namespace t1, which has no account,"
	main := Default{Account: types.NamespacedName{Namespace: "remit", Name: "main"}, Remit: "t1"}
	var many []client.Object
	for i := range maxBounding + 1 {
		many = append(many, recorded(fmt.Sprintf("csv-%d", i), fmt.Sprintf("t1/acct-%d", i)))
	}
	for name, row := range map[string]struct {
		objs []client.Object
		by   Default
		want string
	}{
		"an OperatorGroup":                     {objs: []client.Object{grouped("og", "acct"), recorded("op", "t1/last")}, want: "ServiceAccount t1/acct"},
		"none":                                 {objs: []client.Object{recorded("op", "t1/last")}, want: "ServiceAccount t1/last"},
		"one without an account":               {objs: []client.Object{grouped("og", ""), recorded("op", "t1/last")}, want: "ServiceAccount t1/last"},
		"none, and a default account":          {objs: []client.Object{recorded("op", "t1/last")}, by: main, want: "ServiceAccount t1/last"},
		"several operators":                    {objs: []client.Object{recorded("a", "t1/two"), recorded("b", "t1/one"), recorded("c", "t1/one")}, want: "each of the ServiceAccounts t1/one, t1/two"},
		"nothing recorded":                     {objs: []client.Object{recorded("op", "")}, want: none},
		"no namespace":                         {objs: []client.Object{recorded("op", "last")}, want: none},
		"no name":                              {objs: []client.Object{recorded("op", "t1/")}, want: none},
		"an invalid name":                      {objs: []client.Object{recorded("op", "t1/A B")}, want: none},
		"an account of another namespace":      {objs: []client.Object{recorded("op", "t2/last")}, want: none},
		"the earlier default account":          {objs: []client.Object{recorded("op", "remit/main")}, want: none},
		"Remit's own":                          {objs: []client.Object{recorded("op", "t1/remit-olm")}, by: Default{Remit: "t1"}, want: none},
		"an operator that was copied from one": {objs: []client.Object{recorded("op", "t1/last", "elsewhere")}, want: none},
		"more than count":                      {objs: many, want: none},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lookupOf(t, row.by, row.objs...).HookBound(t.Context(), "t1")
			require.NoError(t, err)
			require.Equal(t, row.want, got.String())
		})
	}
}

func TestWhoMayRemoveWhatExceedsABound(t *testing.T) {
	account := func(name string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name, UID: types.UID(name)}}
	}
	main := Default{Account: types.NamespacedName{Namespace: "t1", Name: "main"}}
	for name, row := range map[string]struct {
		objs []client.Object
		by   Default
		want []string
		why  Reason
	}{
		"one OperatorGroup":   {objs: []client.Object{grouped("og", "acct"), account("acct")}, want: []string{"acct"}},
		"two OperatorGroups":  {objs: []client.Object{grouped("a", "acct"), grouped("b", "other"), account("acct"), account("other")}, want: []string{"acct", "other"}, why: TooManyOperatorGroups},
		"none":                {objs: []client.Object{recorded("op", "t1/last"), account("last")}, want: []string{"last"}, why: NoOperatorGroup},
		"a default account":   {objs: []client.Object{grouped("a", "acct"), grouped("b", "other"), account("acct"), account("main")}, by: main, want: []string{"acct", "main"}, why: TooManyOperatorGroups},
		"no account remains":  {objs: []client.Object{recorded("op", "t1/last")}, why: NoOperatorGroup},
		"the missing account": {objs: []client.Object{grouped("og", "acct")}, why: AccountMissing},
	} {
		t.Run(name, func(t *testing.T) {
			lookup := lookupOf(t, row.by, row.objs...)
			bound, err := lookup.HookBound(t.Context(), "t1")
			require.NoError(t, err)
			accounts, why, err := lookup.Acting(t.Context(), bound)
			require.NoError(t, err)
			require.Equal(t, row.why, ReasonOf(why))
			var got []string
			for _, a := range accounts {
				require.Equal(t, a.Name, string(a.UID))
				got = append(got, a.Name)
			}
			require.Equal(t, row.want, got)
		})
	}
}
