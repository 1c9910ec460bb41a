package subscription

import (
	"context"
	"errors"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
)

// The cache does not contain the OperatorGroup yet. A Subscription of OLM must not get a status that says so.
func TestASubscriptionOfOLMGetsNoStatusFromAnOutdatedCache(t *testing.T) {
	for by, isWritten := range map[string]bool{names.ManagedByOLM: false, "": true} {
		sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
		cached := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(sub).WithStatusSubresource(sub).Build()
		og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og", Annotations: map[string]string{names.AnnotationManagedBy: by}}}
		live := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(og).Build()
		r, err := New(Options{Client: cached, Live: live, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
			Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
		require.NoError(t, err)
		_, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "ns"}})
		require.NoError(t, err)
		require.NoError(t, cached.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
		require.Equal(t, isWritten, len(sub.Status.Conditions) > 0)
	}
}

// The conditions of a Subscription in such a namespace are those of OLM.
func TestASubscriptionOfOLMGetsNoStatus(t *testing.T) {
	for by, isWritten := range map[string]bool{names.ManagedByOLM: false, "": true} {
		sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
		og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og", Annotations: map[string]string{names.AnnotationManagedBy: by}}}
		c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(sub, og).WithStatusSubresource(sub).Build()
		r, err := New(Options{Client: c, Live: c, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
			Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
		require.NoError(t, err)
		_, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "ns"}})
		require.NoError(t, err)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
		require.Equal(t, isWritten, len(sub.Status.Conditions) > 0)
	}
}

// Events of ClusterServiceVersions and InstallPlans wake namespaces that have no Subscriptions.
func TestNoRequestsForANamespaceWithoutSubscriptions(t *testing.T) {
	cached := fake.NewClientBuilder().WithScheme(proofs.Scheme()).Build()
	live := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("a request")
		},
	}).Build()
	r, err := New(Options{Client: cached, Live: live, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
		Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
	require.NoError(t, err)
	_, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "ns"}})
	require.NoError(t, err)
}

// A user who may add a finalizer to an OperatorGroup does not continue its installs after an administrator has deleted it.
func TestAnOperatorGroupThatIsBeingDeletedInstallsNothing(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og", Finalizers: []string{"example.com/delay"}, DeletionTimestamp: &now},
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct"}}
	cached := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(group, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acct"}}).Build()
	r, err := New(Options{Client: cached, Live: cached, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
		Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
	require.NoError(t, err)
	w := &world{namespace: "ns"}
	require.NoError(t, r.gatherInput(t.Context(), w))
	require.NotNil(t, w.blocked)
	require.Equal(t, "OperatorGroup ns/og is being deleted; nothing can be installed", w.blocked.Message)
}

// Without another attempt, a Subscription would wait for an unrelated event. Its condition names no namespace that its readers may not see.
func TestUndecidedTargetsAreTriedAgain(t *testing.T) {
	sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
	og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og"}, Spec: operatorsv1.OperatorGroupSpec{
		ServiceAccountName: "acct", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	secret := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "secret", Labels: map[string]string{"a": "b"}}}
	acct := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acct"}}
	c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(sub, og, acct, secret).WithStatusSubresource(sub).Build()
	live := interceptor.NewClient(c, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return errors.New("no answer")
	}})
	r, err := New(Options{Client: live, Live: live, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
		Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
	require.NoError(t, err)
	w, err := r.gather(t.Context(), "ns", r.RBAC)
	require.NoError(t, err)
	require.Equal(t, "cannot determine all target namespaces of OperatorGroup og; Remit tries again", w.blocked.Message)
	require.Equal(t, unreadablePause, w.after)
}
