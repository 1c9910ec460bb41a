package subscription

import (
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

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
)

// The author check compares authors with the accounts of the OperatorGroups, whether or not anything can be installed (docs/adr/0085).
func TestRecordsTheAccountOfASubscriptionThatIsNotResolved(t *testing.T) {
	group := func(name, account string) *operatorsv1.OperatorGroup {
		return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: account, TargetNamespaces: []string{"ns"}}}
	}
	deleted := group("og", "acct")
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"test/hold"}
	acct := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acct", UID: "acct"}}
	queue := func(r *Reconciler) {
		w, err := r.gather(t.Context(), "ns", r.RBAC)
		require.NoError(t, err)
		require.Nil(t, w.blocked)
		r.long.enqueue("ns", key(w, w.toResolve(w.views())), &job{asking: newKindRecorder(served{})})
	}
	for name, row := range map[string]struct {
		objects  []client.Object
		recorded string
		before   func(*Reconciler)
		want     string
	}{
		"its resolution is queued":                       {objects: []client.Object{group("og", "acct"), acct}, before: queue, want: "ns/acct"},
		"its resolution is queued, and another account":  {objects: []client.Object{group("og", "acct"), acct}, recorded: "ns/earlier", before: queue, want: "ns/acct"},
		"its account does not exist":                     {objects: []client.Object{group("og", "acct")}, want: "ns/acct"},
		"its OperatorGroup is being deleted":             {objects: []client.Object{deleted, acct}, want: "ns/acct"},
		"there are several OperatorGroups":               {objects: []client.Object{group("a", "other"), group("b", "acct"), acct}, want: "ns/acct"},
		"there are several OperatorGroups, and a record": {objects: []client.Object{group("a", "other"), group("b", "acct"), acct}, recorded: "ns/other", want: "ns/other"},
		"there is no OperatorGroup":                      {objects: []client.Object{acct}, recorded: "ns/acct", want: "ns/acct"},
		"there has not been an OperatorGroup":            {objects: []client.Object{acct}},
	} {
		t.Run(name, func(t *testing.T) {
			sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
			if row.recorded != "" {
				sub.Status.SetCondition(accountCondition(row.recorded, metav1.Now()))
			}
			c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(append(row.objects, sub)...).WithStatusSubresource(sub).Build()
			r, err := New(Options{Client: c, Live: c, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
				Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
			require.NoError(t, err)
			if row.before != nil {
				row.before(r)
			}
			for range 2 {
				_, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "ns"}})
				require.NoError(t, err)
			}
			got := &operatorsv1alpha1.Subscription{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), got))
			require.Equal(t, row.want, recordedAccount(&got.Status))
			if row.before != nil {
				require.Len(t, got.Status.Conditions, 1, "the rest of the status does not change")
			}
		})
	}
}
