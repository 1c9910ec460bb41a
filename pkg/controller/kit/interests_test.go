package kit

import (
	"context"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Regression test: a ServiceAccount that many OperatorGroups of a namespace name took time and memory for each of them multiplied by each
// object of the namespace.
func TestSeveralGroupsOfANamespaceAreHandledOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	var groups []client.Object
	var all []ctrl.Request
	for _, name := range []string{"a", "b", "c"} {
		groups = append(groups, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct"}})
		all = append(all, Request("ns", name))
	}
	cached := scoped.Lookup{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(groups...).Build()}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acct"}}
	calls := 0
	interests := &Interests{}
	got := interests.Concerned(t.Context(), cached, nil, account, func(_ context.Context, og client.Object) []ctrl.Request {
		calls++
		return []ctrl.Request{Request("", og.GetNamespace())}
	})
	require.Equal(t, 1, calls)
	require.Equal(t, []ctrl.Request{Request("", "ns")}, got)
	require.Equal(t, all, interests.ConcernedGroups(t.Context(), cached, nil, account))
}
