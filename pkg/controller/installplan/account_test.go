package installplan

import (
	"context"
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
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// The cache may name an account long after the OperatorGroup names another one. No client is created before the OperatorGroup is
// read from the API server, and no step is executed once the cache shows the replacement.
func TestSendsNothingAsAReplacedAccount(t *testing.T) {
	// Accounts is not set, so creating a client would panic.
	cached := accountRun(t, "acct", "boss")
	require.NoError(t, cached.sameAccount(t.Context()), "the cache is outdated")
	_, err := openClients(t.Context(), cached)
	require.ErrorContains(t, err, "the account of namespace \"ns\" changed")

	known := accountRun(t, "boss", "boss")
	require.ErrorContains(t, known.sameAccount(t.Context()), "while the plan was executed")
	_, err = openClients(t.Context(), known)
	require.ErrorContains(t, err, "the account of namespace \"ns\" changed")
}

func TestSendsNothingAsARecreatedAccount(t *testing.T) {
	s := accountRun(t, "acct", "acct") // Accounts is not set, so creating a client would panic
	s.account.UID = "0"
	require.ErrorContains(t, s.sameAccount(t.Context()), "while the plan was executed")
	_, err := openClients(t.Context(), s)
	require.ErrorContains(t, err, "the account of namespace \"ns\" changed")
}

// The ServiceAccount is not read from the API server, because the token is requested for the UID of the cached one.
func TestOpensTheClientForTheUIDOfTheCachedAccount(t *testing.T) {
	s := accountRun(t, "acct", "acct")
	var opened scoped.Account
	s.reconciler.Accounts = openerFunc(func(account scoped.Account) error {
		opened = account
		return &scoped.Error{Reason: scoped.AccountChanged, Message: "recreated"}
	})
	out, err := openClients(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, wait(reasonCheckFailed, "recreated").message, out.message)
	require.EqualValues(t, "1", opened.UID)
}

// openerFunc implements AccountClients.
type openerFunc func(scoped.Account) error

func (f openerFunc) For(_ context.Context, account scoped.Account) (client.Client, error) {
	return nil, f(account)
}

// accountRun returns a run for the account "acct" with UID 1, in a namespace whose OperatorGroup names the given accounts: in the
// cache, and according to the API server, which has no ServiceAccounts.
func accountRun(t *testing.T, cached, live string) *run {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, corev1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "a", ResourceVersion: "1"}}
	world := func(name string, more ...client.Object) client.Client {
		og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og"}, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: name}}
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(plan.DeepCopy(), og).WithObjects(more...).Build()
	}
	made := func(name string, uid types.UID) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	}
	return &run{account: scoped.Account{Namespace: "ns", Name: "acct", UID: "1"}, saved: plan, plan: plan.DeepCopy(),
		reconciler: &Reconciler{Options: Options{Live: world(live), Client: world(cached, made("acct", "1"), made("boss", "2"))}}}
}

// The cache does not contain the OperatorGroup yet. A plan of OLM must not get a status that says so.
func TestAPlanOfOLMGetsNoStatusFromAnOutdatedCache(t *testing.T) {
	for by, want := range map[string]error{names.ManagedByOLM: errLeftToOLM, "": nil} {
		s := accountRun(t, "acct", "acct")
		og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og"}}
		require.NoError(t, s.reconciler.Client.Delete(t.Context(), og))
		live, ok := s.reconciler.Live.(client.Client)
		require.True(t, ok)
		require.NoError(t, live.Get(t.Context(), client.ObjectKeyFromObject(og), og))
		og.Annotations = map[string]string{names.AnnotationManagedBy: by}
		require.NoError(t, live.Update(t.Context(), og))
		out, err := findAccount(t.Context(), s)
		require.ErrorIs(t, err, want)
		require.Equal(t, want == nil, out.message != "", "waits for an OperatorGroup")
		_, _, missing := s.reconciler.Default.Lookup(s.reconciler.Client).Account(t.Context(), "ns")
		s.saved.Status.Message, s.plan.Status.Phase = missing.Error(), operatorsv1alpha1.InstallPlanPhaseInstalling
		_, err = findAccount(t.Context(), s)
		require.ErrorIs(t, err, want, "the message is unchanged, but the phase is not")
	}
}

// Tools read the account from the status of a plan that waits for permissions or for an approval.
func TestAPlanNamesItsAccountBeforeItIsExecuted(t *testing.T) {
	s := accountRun(t, "boss", "boss")
	s.reconciler.confirmer = &preflight.Confirmer{}
	_, err := findAccount(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, &corev1.ObjectReference{APIVersion: "v1", Kind: "ServiceAccount", Namespace: "ns", Name: "boss", UID: "2"}, s.plan.Status.AttenuatedServiceAccountRef)
}

func TestAWaitingPlanNamesItsAccountInItsStatus(t *testing.T) {
	t.Parallel()
	for name, waiting := range map[string]change{"for an approval": manual(false), "for permissions": withoutCRDs()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, waiting)
			w.reconcile()
			w.Get(w.plan)
			require.NotEqual(t, operatorsv1alpha1.InstallPlanPhaseComplete, w.plan.Status.Phase)
			require.NotNil(t, w.plan.Status.AttenuatedServiceAccountRef)
			require.Equal(t, "acct", w.plan.Status.AttenuatedServiceAccountRef.Name)
		})
	}
}
