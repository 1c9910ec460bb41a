package subscription

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
)

// Regression test: if a webhook refused an InstallPlan with another text each time, the status with the text started the next attempt.
func TestATextThatAlwaysDiffersWakesNothing(t *testing.T) {
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sub"}, Spec: &operatorsv1alpha1.SubscriptionSpec{}}
	sub.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: operatorsv1alpha1.SubscriptionBundleUnpackFailed, Status: "True", Message: "refused: 1"})
	var reads atomic.Int64
	c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(sub).WithStatusSubresource(sub).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			reads.Add(1)
			return c.List(ctx, list, opts...)
		},
	}).Build()
	r, err := New(Options{Client: c, Live: c, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
		Recorder: events.NewFakeRecorder(10), Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
	require.NoError(t, err)
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	handler := <-handlers.Of(t, sub, proofs.Scheme(), func(mgr ctrl.Manager) error { return r.SetupWithManager(mgr, none, none) })

	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
	after := sub.DeepCopy()
	after.Status.Conditions[0].Message = "refused: 2"
	require.NoError(t, r.replaced.Patch(t.Context(), c, sub, after))
	reads.Store(0)
	handler.OnUpdate(sub, after)
	require.Never(t, func() bool { return reads.Load() > 0 }, 500*time.Millisecond, 10*time.Millisecond)

	later := after.DeepCopy()
	later.ResourceVersion, later.Status.Conditions[0].Message = "x", "of another client"
	handler.OnUpdate(after, later)
	require.Eventually(t, func() bool { return reads.Load() > 0 }, 10*time.Second, 10*time.Millisecond)
}
