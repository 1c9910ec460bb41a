package greeter

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

// FieldManager is the field manager of all objects that the operator applies.
const FieldManager = client.FieldOwner("sample-operator")

// Options are the options of a Reconciler. All but DefaultMessage are required.
type Options struct {
	Client   client.Client
	Recorder events.EventRecorder
	// DefaultMessage is the message for Greetings without one.
	DefaultMessage string
}

// Reconciler creates a ConfigMap and a Deployment for each Greeting.
type Reconciler struct {
	Options
}

// New returns a Reconciler.
func New(opts Options) (*Reconciler, error) {
	if opts.Client == nil || opts.Recorder == nil {
		return nil, errors.New("greeter: Client and Recorder are required")
	}
	return &Reconciler{Options: opts}, nil
}

// SetupWithManager registers the reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&samplev1.Greeting{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Complete(r)
}

// Reconcile applies the Greeting's desired objects and reports its progress.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	greeting := &samplev1.Greeting{}
	if err := r.Client.Get(ctx, req.NamespacedName, greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !greeting.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the garbage collector deletes its objects
	}
	if err := r.Client.Apply(ctx, desiredConfigMap(greeting, r.DefaultMessage), FieldManager); err != nil {
		return ctrl.Result{}, fmt.Errorf("apply ConfigMap %s: %w", configMapName(greeting), err)
	}
	if err := r.Client.Apply(ctx, desiredDeployment(greeting), FieldManager); err != nil {
		return ctrl.Result{}, fmt.Errorf("apply Deployment %s: %w", deploymentName(greeting), err)
	}
	return ctrl.Result{}, r.report(ctx, greeting)
}

// report patches the status if it changed. If the Deployment is not in the cache yet, no replicas count as available,
// and the Deployment's watch event triggers the next reconcile.
func (r *Reconciler) report(ctx context.Context, greeting *samplev1.Greeting) error {
	deployment := &appsv1.Deployment{}
	key := types.NamespacedName{Namespace: greeting.Namespace, Name: deploymentName(greeting)}
	if err := r.Client.Get(ctx, key, deployment); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Deployment %s: %w", key, err)
	}
	before := greeting.DeepCopy()
	setStatus(greeting, deployment)
	if equality.Semantic.DeepEqual(before.Status, greeting.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, greeting, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patch status of Greeting %s: %w", client.ObjectKeyFromObject(greeting), err)
	}
	if isReady(greeting) && !isReady(before) {
		r.Recorder.Eventf(greeting, nil, corev1.EventTypeNormal, samplev1.ReasonGreeting, "Greet",
			"ConfigMap %s contains the message", greeting.Status.ConfigMapName)
	}
	return nil
}

func isReady(greeting *samplev1.Greeting) bool {
	return meta.IsStatusConditionTrue(greeting.Status.Conditions, samplev1.ConditionReady)
}
