package installplan

import (
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

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// The cache may contain an account long after the account was replaced. No client is created before the account is read
// from the API server, and no step is executed once the cache shows the replacement.
func TestSendsNothingAsAReplacedAccount(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, corev1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "a", ResourceVersion: "1"}}
	// world returns a client for a namespace whose account has the given name and UID.
	world := func(name string, uid types.UID) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(plan.DeepCopy(),
			&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og"},
				Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: name}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}).Build()
	}
	account := scoped.Account{Namespace: "ns", Name: "acct", UID: "1"}
	for name, now := range map[string]client.Client{"made anew": world("acct", "2"), "another": world("boss", "1")} {
		t.Run(name, func(t *testing.T) {
			cached := &run{account: account, saved: plan, plan: plan.DeepCopy(),
				reconciler: &Reconciler{Options: Options{Live: now, Client: world("acct", "1")}}}
			require.NoError(t, cached.sameAccount(t.Context()), "the cache is outdated")
			// Accounts is not set, so creating a client would panic.
			_, err := openClients(t.Context(), cached)
			require.ErrorContains(t, err, "the account of namespace \"ns\" changed")

			known := &run{account: account, saved: plan, plan: plan.DeepCopy(), reconciler: &Reconciler{Options: Options{Live: now, Client: now}}}
			require.ErrorContains(t, known.sameAccount(t.Context()), "while the plan was executed")
		})
	}
}
