package greeter

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

func TestReconcileGreetsAndReportsIt(t *testing.T) {
	greeting := given("hi", 1)
	recorder := events.NewFakeRecorder(1)
	r := newReconciler(t, recorder, greeting)
	key := client.ObjectKeyFromObject(greeting)

	reconcile(t, r, key)

	configMap := &corev1.ConfigMap{}
	require.NoError(t, r.Client.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "demo-greeting"}, configMap))
	require.Equal(t, "hi", configMap.Data[KeyMessage])
	require.False(t, isReady(get(t, r, key)))
	require.Empty(t, recorder.Events)

	makeAvailable(t, r)
	reconcile(t, r, key)

	require.True(t, isReady(get(t, r, key)))
	require.Contains(t, <-recorder.Events, samplev1.ReasonGreeting)

	before := get(t, r, key).ResourceVersion
	reconcile(t, r, key)
	require.Equal(t, before, get(t, r, key).ResourceVersion, "without changes, nothing must be written")
	require.Empty(t, recorder.Events)
}

func TestIgnoresADeletedGreeting(t *testing.T) {
	reconcile(t, newReconciler(t, events.NewFakeRecorder(0)), types.NamespacedName{Namespace: "team", Name: "gone"})
}

func TestNewRequiresAClientAndARecorder(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "required")
}

func newReconciler(t *testing.T, recorder events.EventRecorder, objs ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, samplev1.AddToScheme(scheme))
	c := fake.NewClientBuilder().
		WithScheme(scheme).
		WithObjects(objs...).
		WithStatusSubresource(&samplev1.Greeting{}, &appsv1.Deployment{}).
		Build()
	r, err := New(Options{Client: c, Recorder: recorder, DefaultMessage: "hello"})
	require.NoError(t, err)
	return r
}

func reconcile(t *testing.T, r *Reconciler, key types.NamespacedName) {
	t.Helper()
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	require.True(t, result.IsZero(), "watches must trigger the next reconcile")
}

func get(t *testing.T, r *Reconciler, key types.NamespacedName) *samplev1.Greeting {
	t.Helper()
	greeting := &samplev1.Greeting{}
	require.NoError(t, r.Client.Get(t.Context(), key, greeting))
	return greeting
}

// makeAvailable simulates the Deployment controller. The fake client does not set a generation.
func makeAvailable(t *testing.T, r *Reconciler) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(t, r.Client.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "demo-greeter"}, deployment))
	deployment.Generation = 1
	require.NoError(t, r.Client.Update(t.Context(), deployment))
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, AvailableReplicas: 1}
	require.NoError(t, r.Client.Status().Update(t.Context(), deployment))
}
