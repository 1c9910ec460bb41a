package catalogsource

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// The account decides who may change the spec while the namespace has no OperatorGroup (docs/adr/0090).
func TestRecordsTheAccountOfACatalogSource(t *testing.T) {
	group := func(name, account string) client.Object {
		return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: account}}
	}
	for name, row := range map[string]struct {
		groups       []client.Object
		before, want string
		global       bool
	}{
		"an OperatorGroup":                     {groups: []client.Object{group("og", "acct")}, want: "ns/acct"},
		"another account":                      {groups: []client.Object{group("og", "acct")}, before: "ns/earlier", want: "ns/acct"},
		"no OperatorGroup":                     {},
		"no OperatorGroup any more":            {before: "ns/earlier", want: "ns/earlier"},
		"several OperatorGroups":               {groups: []client.Object{group("a", "a"), group("b", "b")}, before: "ns/b", want: "ns/b"},
		"an OperatorGroup without an account":  {groups: []client.Object{group("og", "")}},
		"the namespace of the global catalogs": {groups: []client.Object{group("og", "acct")}, global: true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, operatorsv1.AddToScheme(scheme))
			r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(row.groups...).Build(), GlobalNamespace: "global"}}
			if row.global {
				r.GlobalNamespace = "ns"
			}
			cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "catalog"}}
			if row.before != "" {
				cs.Status.Conditions = []metav1.Condition{{Type: names.ConditionAuthorUnchecked, Message: "ServiceAccount " + row.before + " installs"}}
			}
			want := cs.Status.DeepCopy()
			require.NoError(t, r.record(t.Context(), cs, want, metav1.Now()))
			require.Equal(t, row.want, recordedAccount(want))
			if c := meta.FindStatusCondition(want.Conditions, names.ConditionAuthorUnchecked); c != nil {
				require.Contains(t, c.Message, "ServiceAccount "+row.want+" ")
			}
		})
	}
}
