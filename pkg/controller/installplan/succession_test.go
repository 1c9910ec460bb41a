package installplan

import (
	"context"
	"errors"
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/step"
)

func TestAsksWhetherOwnersAreGuardedUntilKnown(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	conflict := apierrors.NewConflict(leases, "remit-catalog", errors.New("renewed"))
	forbidden := apierrors.NewForbidden(leases, "remit-catalog", errors.New("cannot set an ownerRef on a resource you can't delete"))
	for name, tc := range map[string]struct {
		answers      []error
		first, again bool
		requests     int
	}{
		"the owner reference is forbidden":   {[]error{forbidden}, true, true, 1},
		"updates of the Lease are forbidden": {[]error{apierrors.NewForbidden(leases, "remit-catalog", errors.New("no")), nil}, false, false, 2},
		"the owner reference is allowed":     {[]error{nil}, false, false, 1},
		"the Lease is renewed":               {[]error{conflict, conflict, forbidden}, true, true, 3},
		"the API server is down":             {[]error{errors.New("down"), forbidden}, false, true, 2},
		"the Lease is renewed each time":     {[]error{conflict, conflict, conflict, conflict, conflict, nil}, false, false, 6},
	} {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "remit-catalog"}}
			requests := 0
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(lease).WithInterceptorFuncs(interceptor.Funcs{
				Update: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.UpdateOption) error {
					require.Equal(t, []client.UpdateOption{client.DryRunAll}, opts)
					requests++
					return tc.answers[requests-1]
				},
			}).Build()
			o := &owners{}
			key := client.ObjectKeyFromObject(lease)
			require.Equal(t, tc.first, o.guarded(t.Context(), c, c, key))
			require.Equal(t, tc.again, o.guarded(t.Context(), c, c, key))
			require.Equal(t, tc.again, o.guarded(t.Context(), c, c, key))
			require.Equal(t, tc.requests, requests)
		})
	}
}

func TestListsPlansOnceForAllSteps(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	done := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "done"}}
	done.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete
	done.Status.Plan = []*operatorsv1alpha1.Step{{Resolving: "a.v1", Resource: operatorsv1alpha1.StepResource{Version: "v1", Kind: "ConfigMap", Name: "x"}}}
	waiting := done.DeepCopy()
	waiting.Name, waiting.Status.Phase, waiting.Status.Plan[0].Resource.Name = "waiting", operatorsv1alpha1.InstallPlanPhaseInstalling, "y"
	lists := 0
	s, _, _ := newRun("")
	s.reconciler.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(done, waiting).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	}).Build()
	for range 3 {
		require.True(t, s.wasShown(t.Context(), object("a.v2", "ConfigMap", "x", ""), "a.v1"))
		require.False(t, s.wasShown(t.Context(), object("a.v2", "ConfigMap", "y", ""), "a.v1"), "the plan with this object was not executed")
		require.False(t, s.wasShown(t.Context(), object("a.v2", "Secret", "x", ""), "a.v1"))
		require.False(t, s.wasShown(t.Context(), object("a.v2", "ConfigMap", "x", ""), "a.v0"))
	}
	require.Equal(t, 1, lists)
}

// counting is a RESTMapper that counts lookups of unknown kinds.
type counting struct {
	meta.RESTMapper
	asked int
}

func (c *counting) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	return c.RESTMapper.RESTMapping(kind, versions...)
}

func TestInventedVersionsCostFewRequests(t *testing.T) {
	mapper := &counting{RESTMapper: meta.NewDefaultRESTMapper(nil)}
	s := &run{reconciler: &Reconciler{unserved: kinds.NewUnserved(clock.RealClock{}), Options: Options{
		Client: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithRESTMapper(mapper).Build()}}}
	for i := range 100 {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "policy", Version: fmt.Sprint("v", i), Kind: "PodDisruptionBudget"})
		obj.SetName("a")
		s.steps = append(s.steps, step.Step{Object: obj})
	}
	require.NoError(t, s.refuseUnserved(t.Context()))
	require.Equal(t, 20, mapper.asked)
	require.Len(t, s.findings.Refused, 20)
	require.Equal(t, []string{"20 kinds are not served by the cluster; the kinds of 80 more objects were not checked"}, s.findings.Notes)
}
