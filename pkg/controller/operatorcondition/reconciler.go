package operatorcondition

import (
	"context"
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Options contains the dependencies of New. Client and RBAC are required.
type Options struct {
	// Client reads from the cache. It creates OperatorConditions and writes their status as the controller identity.
	Client client.Client
	RBAC   rbac.Listers
	// Default is the installation's default account; the zero value means that there is none.
	Default scoped.Default
}

// Reconciler maintains OperatorConditions.
type Reconciler struct {
	Options
	interests *kit.Interests
}

// New returns a Reconciler, or an error if a required option is missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.RBAC.Roles == nil {
		return nil, errors.New("operatorcondition: Client and RBAC are required")
	}
	return &Reconciler{Options: o, interests: &kit.Interests{}}, nil
}

// Reconcile implements reconcile.Reconciler. A request contains the name of a ClusterServiceVersion, which is also the
// name of its OperatorCondition.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tracked := *r
	r = &tracked
	defer r.interests.Track(req, &r.RBAC)()
	if left, err := (scoped.Lookup{Reader: r.Client}).LeavesToOLM(ctx, req.Namespace); left || err != nil {
		return ctrl.Result{}, err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	exists, err := apply.Read(ctx, r.Client, req.NamespacedName, csv)
	if err != nil || !exists || csv.DeletionTimestamp != nil || isCopy(csv) {
		return ctrl.Result{}, err
	}
	live := &operatorsv2.OperatorCondition{}
	exists, err = apply.Read(ctx, r.Client, req.NamespacedName, live)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case !exists:
		return ctrl.Result{}, r.create(ctx, csv)
	case live.DeletionTimestamp != nil:
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.updateStatus(ctx, csv, live)
}

// isCopy reports whether a ClusterServiceVersion is a copy, which has no operator in its namespace.
func isCopy(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	_, copied := csv.Labels[names.LabelCopiedFrom]
	return copied
}

// create creates the OperatorCondition. If one was created in the meantime, or the namespace is being deleted, an event
// triggers the next reconcile.
func (r *Reconciler) create(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) error {
	desired := condition.Desired(csv)
	err := r.Client.Create(ctx, desired)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("Created the OperatorCondition")
		return nil
	case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	}
	return fmt.Errorf("create OperatorCondition %s: %w", client.ObjectKeyFromObject(desired), err)
}

// updateStatus copies the conditions of the spec to the status. A conflict means that the cache is outdated, and the
// pending event triggers another reconcile.
func (r *Reconciler) updateStatus(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, live *operatorsv2.OperatorCondition) error {
	after := live.DeepCopy()
	after.Status.Conditions = condition.Observed(live)
	problem, err := r.accessProblem(ctx, csv)
	if err != nil {
		return err
	}
	if problem != "" {
		setAccess(after, live.Status.Conditions, problem)
	}
	if err := status.Patch(ctx, r.Client, live, after); !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
