package scoped

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestTheAccountsOfANamespaceBoundItsOperators(t *testing.T) {
	named := func(name, account string, annotations ...string) client.Object {
		og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name}}
		og.Spec.ServiceAccountName = account
		if len(annotations) > 0 {
			og.Annotations = map[string]string{annotations[0]: annotations[1]}
		}
		return og
	}
	recording := func(account string) client.Object {
		csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: strings.ReplaceAll(account, "/", "-")}}
		csv.Annotations = map[string]string{names.AnnotationAccount: account}
		return csv
	}
	var many []client.Object
	for i := range maxBounding + 1 {
		many = append(many, named(fmt.Sprintf("og-%d", i), "acct"))
	}
	main := Default{Account: types.NamespacedName{Namespace: "remit", Name: "main"}}
	limited := main
	limited.Namespaces = []string{"t2"}
	for name, row := range map[string]struct {
		groups      []client.Object
		by          Default
		want        string
		kept, isOLM bool
	}{
		"one OperatorGroup":            {groups: []client.Object{named("og", "acct")}, by: main, want: "ServiceAccount t1/acct"},
		"none":                         {want: "namespace t1, which has no account,"},
		"none, with a default account": {by: main, want: "ServiceAccount remit/main"},
		"none, and the last account was recorded":                 {groups: []client.Object{recording("t1/acct")}, by: main, want: "ServiceAccount t1/acct"},
		"none, and the default account was recorded":              {groups: []client.Object{recording("t1/acct"), recording("remit/main")}, by: main, want: "ServiceAccount remit/main"},
		"none, and the account of another namespace was recorded": {groups: []client.Object{recording("t2/acct")}, by: main, want: "ServiceAccount remit/main"},
		"one that names none, and the last account was recorded":  {groups: []client.Object{named("og", ""), recording("t1/acct")}, by: main, want: "ServiceAccount remit/main"},
		"none, and a recorded account, without a default account": {groups: []client.Object{recording("t1/acct")}, want: "namespace t1, which has no account,"},
		"none, with a default account for others":                 {by: limited, want: "namespace t1, which has no account,"},
		"one that names no account":                               {groups: []client.Object{named("og", "")}, want: "namespace t1, which has no account,"},
		"one that names none, with a default account":             {groups: []client.Object{named("og", "")}, by: main, want: "ServiceAccount remit/main"},
		"one without the name that cannot be decoded":             {groups: []client.Object{named("og", "", names.AnnotationUndecodable, "x"), recording("t1/acct")}, by: main, want: "namespace t1, which has no account,"},
		"an invalid name":                      {groups: []client.Object{named("og", "A B")}, by: main, want: "namespace t1, which has no account,"},
		"two":                                  {groups: []client.Object{named("b", "two"), named("a", "one"), named("c", "one")}, want: "each of the ServiceAccounts t1/one, t1/two"},
		"more than count":                      {groups: many, want: "namespace t1, which has no account,"},
		"one that keeps the excess":            {groups: []client.Object{named("a", "acct"), named("b", "acct", names.AnnotationKeepExcess, "true")}, want: "ServiceAccount t1/acct", kept: true},
		"one that leaves the namespace to OLM": {groups: []client.Object{named("a", "acct", names.AnnotationManagedBy, names.ManagedByOLM)}, want: "ServiceAccount t1/acct", isOLM: true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, operatorsv1.AddToScheme(scheme))
			require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
			got, err := row.by.Lookup(fake.NewClientBuilder().WithScheme(scheme).WithObjects(row.groups...).Build()).Bound(t.Context(), "t1")
			require.NoError(t, err)
			require.Equal(t, row.want, got.String())
			require.Equal(t, row.kept, got.KeptBy != "")
			require.Equal(t, row.isOLM, got.LeftToOLM)
			require.True(t, got.Same(got))
			for _, other := range []Bound{{Accounts: append(got.Accounts[:0:0], types.NamespacedName{Name: "x"}), KeptBy: got.KeptBy, LeftToOLM: got.LeftToOLM},
				{Accounts: got.Accounts, LeftToOLM: !got.LeftToOLM, KeptBy: got.KeptBy}} {
				require.False(t, got.Same(other))
			}
		})
	}
}

func TestEveryOperatorGroupNamesAnAccount(t *testing.T) {
	group := func(name, account string, annotations map[string]string) client.Object {
		return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name, Annotations: annotations}, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: account}}
	}
	var many []client.Object
	for i := range maxBounding + 1 {
		many = append(many, group(fmt.Sprintf("og-%d", i), "acct", nil))
	}
	main := Default{Account: types.NamespacedName{Namespace: "remit", Name: "main"}, Remit: "remit"}
	for name, row := range map[string]struct {
		groups []client.Object
		by     Default
		want   string
	}{
		"none":            {by: main, want: "[]"},
		"two":             {groups: []client.Object{group("a", "two", nil), group("b", "one", nil), group("c", "two", nil)}, want: "[t1/one t1/two]"},
		"one without":     {groups: []client.Object{group("a", "", nil), group("b", "one", nil)}, want: "[t1/one]"},
		"the default":     {groups: []client.Object{group("a", "", nil), group("b", "one", nil)}, by: main, want: "[remit/main t1/one]"},
		"many":            {groups: many, want: "[t1/acct]"},
		"an invalid name": {groups: []client.Object{group("a", "A B", nil)}, by: main, want: "[]"},
		"an unknown part": {groups: []client.Object{group("a", "", map[string]string{names.AnnotationUndecodable: "why"})}, by: main, want: "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, operatorsv1.AddToScheme(scheme))
			got, err := row.by.Lookup(fake.NewClientBuilder().WithScheme(scheme).WithObjects(row.groups...).Build()).Named(t.Context(), "t1")
			require.NoError(t, err)
			require.Equal(t, row.want, fmt.Sprint(got))
		})
	}
}

func TestAnObjectRemembersOneAccount(t *testing.T) {
	one, two := types.NamespacedName{Namespace: "t1", Name: "one"}, types.NamespacedName{Namespace: "t1", Name: "two"}
	for _, row := range []struct {
		accounts       []types.NamespacedName
		recorded, want string
	}{
		{nil, "", ""},
		{nil, "t1/one", "t1/one"},
		{[]types.NamespacedName{one}, "", "t1/one"},
		{[]types.NamespacedName{two}, "t1/one", "t1/two"},
		{[]types.NamespacedName{one, two}, "", "t1/one"},
		{[]types.NamespacedName{one, two}, "t1/two", "t1/two"},
		{[]types.NamespacedName{one, two}, "t1/three", "t1/one"},
	} {
		require.Equal(t, row.want, ToRecord(row.accounts, row.recorded), row)
	}
}
