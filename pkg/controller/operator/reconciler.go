package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const (
	// correction is the delay between a change to an Operator and its reconcile. It limits the number of writes if another
	// program, such as OLM v0, also maintains the Operator.
	correction = time.Minute
	// maxOperators is the maximum number of Operators of a namespace, because users of a namespace must not be able to fill
	// the storage of the cluster.
	maxOperators = 100
)

// Proofs creates and verifies proofs. *proof.Keys implements it.
type Proofs interface {
	ownerutil.Proofs
	Proves(obj client.Object, holder string) bool
}

// Options contains the dependencies of New. All fields are required.
type Options struct {
	// Client reads from the cache, with the indexes of Index and kit.IndexLineage. It writes Operators and their status as
	// the controller identity.
	Client client.Client
	// Proofs verifies that an install created an object, and proves that Remit created an Operator.
	Proofs Proofs
}

// Reconciler maintains Operators. Each request contains the name of a namespace.
type Reconciler struct {
	Options
	// written contains the fingerprint of the last status that this program wrote, keyed by the name of the Operator, so that the
	// events of its own writes cause no reconciles.
	written *keyed.Map[string, string]
	// settling determines the delay between an event and its reconcile. An install causes many events within a few seconds, which
	// usually need only one update of its Operator.
	settling *kit.Settling
}

// New returns a Reconciler, or an error if a required option is missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Proofs == nil {
		return nil, errors.New("operator: Client and Proofs are required")
	}
	return &Reconciler{Options: o, written: &keyed.Map[string, string]{}, settling: kit.NewSettling()}, nil
}

// Reconcile implements reconcile.Reconciler. It maintains all Operators of a namespace, because their number is limited. A
// conflict means that the cache is outdated.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if left, err := (scoped.Lookup{Reader: r.Client}).LeavesToOLM(ctx, req.Name); left || err != nil {
		return ctrl.Result{}, err
	}
	w, err := r.gather(ctx, req.Name)
	if err != nil || w.namespace != nil && w.namespace.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	err = errors.Join(r.write(ctx, w), r.deleteOthers(ctx, w))
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: kit.SettleTime}, nil
	}
	return ctrl.Result{}, err
}

// write creates the Operators of the operators that have components, and updates their status. In a namespace without an
// OperatorGroup, Remit installs nothing, so write creates no Operators there.
func (r *Reconciler) write(ctx context.Context, w *state) error {
	var errs []error
	for _, op := range w.operators {
		live := w.existing[op.name()]
		switch {
		case live == nil && !w.grouped, live != nil && live.DeletionTimestamp != nil:
			continue
		case live == nil:
			made, err := r.create(ctx, w, op)
			if err != nil || made == nil {
				errs = append(errs, err)
				continue
			}
			if !op.isBegun() {
				continue // the creation causes another reconcile, after which the status needs fewer updates
			}
			live = made
		}
		errs = append(errs, r.updateStatus(ctx, live, op))
	}
	return errors.Join(errs...)
}

// create creates an Operator, which the garbage collector deletes after its namespace. It returns nil if another client
// has created it in the meantime; the pending event triggers another reconcile.
func (r *Reconciler) create(ctx context.Context, w *state, op operator) (*operatorsv1.Operator, error) {
	signed := apply.Reference(operatorsv1.GroupVersion.WithKind("Operator"), "", op.name())
	if err := r.Proofs.Sign(signed, names.HolderOperator, nil); err != nil {
		return nil, fmt.Errorf("prove ownership of Operator %s: %w", op.name(), err)
	}
	made := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{
		Name: op.name(), Annotations: signed.GetAnnotations(),
		OwnerReferences: []metav1.OwnerReference{ownerutil.NamespaceReference(w.namespace.Name, w.namespace.UID)},
	}}
	err := r.Client.Create(ctx, made)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("create Operator %s: %w", op.name(), err)
	case !r.isOwn(made): // the request took so long that the proof is invalid, so the Operator would never be deleted
		return nil, errors.Join(fmt.Errorf("create Operator %s: the request took too long", op.name()), apply.Delete(ctx, r.Client, made))
	}
	log.FromContext(ctx).Info("Created Operator", "Operator", op.name())
	return made, nil
}

// isOwn reports whether Remit created an Operator.
func (r *Reconciler) isOwn(op *operatorsv1.Operator) bool {
	return r.Proofs.Proves(op, names.HolderOperator)
}

// updateStatus writes the status if it has changed. It also writes the status of an Operator that another client created:
// its name identifies the operator, and its status has no effect.
func (r *Reconciler) updateStatus(ctx context.Context, live *operatorsv1.Operator, op operator) error {
	desired := desiredStatus(op)
	text := fingerprint(desired)
	r.written.Set(live.Name, text)
	if fingerprintOf(live) == text {
		return nil
	}
	body, err := json.Marshal([]operation{{"add", "/metadata/resourceVersion", live.ResourceVersion}, {"add", "/status", desired}})
	if err != nil {
		return fmt.Errorf("encode the status of Operator %s: %w", live.Name, err)
	}
	err = r.Client.Status().Patch(ctx, &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: live.Name}}, client.RawPatch(types.JSONPatchType, body))
	if client.IgnoreNotFound(err) != nil { // not found: the deletion event is pending
		return fmt.Errorf("patch the status of Operator %s: %w", live.Name, err)
	}
	return nil
}

// operation is an operation of a JSON patch. The patch replaces the whole status, because the cache does not contain the current
// one. With the resource version, the API server refuses it with a conflict if the Operator has changed.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// deleteOthers deletes the namespace's Operators that have no components. It keeps those that other clients created.
func (r *Reconciler) deleteOthers(ctx context.Context, w *state) error {
	var errs []error
	for _, live := range w.existing {
		isWanted := slices.ContainsFunc(w.operators, func(op operator) bool { return op.name() == live.Name })
		if isWanted || live.DeletionTimestamp != nil || !r.isOwn(live) {
			continue
		}
		err := apply.Delete(ctx, r.Client, live)
		if err == nil {
			log.FromContext(ctx).Info("Deleted Operator without components", "Operator", live.Name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
