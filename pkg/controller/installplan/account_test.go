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

// The cache may show an account for long after it is no longer the one. No client is opened before the API server was
// asked, and no step is done once the cache knows.
func TestNothingIsSentAsAnAccountThatIsNoLongerTheOne(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, corev1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "a", ResourceVersion: "1"}}
	// world is what a reader shows of a namespace whose account has a name and a UID.
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
			require.NoError(t, cached.sameAccount(t.Context()), "the cache is behind")
			// Without Accounts, opening a client panics: nothing may come as far as that.
			_, err := openClients(t.Context(), cached)
			require.ErrorContains(t, err, "the account of namespace \"ns\" changed")

			known := &run{account: account, saved: plan, plan: plan.DeepCopy(), reconciler: &Reconciler{Options: Options{Live: now, Client: now}}}
			require.ErrorContains(t, known.sameAccount(t.Context()), "while the plan was carried out")
		})
	}
}
