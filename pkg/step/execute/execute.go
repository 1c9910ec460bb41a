package execute

import (
	"cmp"
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// Executor executes the steps of one plan. Create one for each run.
type Executor struct {
	// Account writes everything except CustomResourceDefinitions.
	Account client.Client
	// CRDs writes CustomResourceDefinitions: the account or the installation's own CRD account. It writes Approved
	// ones only for the default account.
	CRDs client.Client
	// IsDefault is true if Account is the installation's default account. Only that account may write
	// CustomResourceDefinitions that are Reserved, or whose groups are Taken.
	IsDefault bool
	// Facts reads CustomResourceDefinitions, which an account need not be allowed to read.
	Facts client.Reader
	// Cluster reads APIServices and lists CustomResourceDefinitions, preferably from a cache.
	Cluster client.Reader

	// RBAC finds the bindings that refer to a role of an operator.
	RBAC rbac.Listers
	// Pruned records the fields that were removed from the objects of steps; nil removes nothing.
	Pruned Pruned

	// rendered are the bindings of the plan.
	rendered []*unstructured.Unstructured

	// served has the owners of API groups, if the plan has CustomResourceDefinitions.
	served Served
	// csvs are the UIDs of the plan's existing ClusterServiceVersions, for owner references.
	csvs map[types.NamespacedName]types.UID
}

// State is the observed state of a step's object.
type State struct {
	Step step.Step
	// Live is nil if the object does not exist.
	Live *unstructured.Unstructured
	// Problem is the reason that the step cannot be executed: a collision, a kind that the cluster does not serve, or
	// one that the account may not have.
	Problem error
}

// Gather reads the objects of all steps and determines their problems, so that all of them are known before the first
// write.
func (e *Executor) Gather(ctx context.Context, steps []step.Step) ([]State, error) {
	e.csvs = map[types.NamespacedName]types.UID{}
	if err := e.gatherAPIs(ctx, steps); err != nil {
		return nil, err
	}
	for _, s := range steps {
		if IsBinding(s.Object) {
			e.rendered = append(e.rendered, s.Object)
		}
	}
	states := make([]State, 0, len(steps))
	planned := PlannedKinds(steps)
	for _, s := range steps {
		live, err := e.live(ctx, s)
		state := State{Step: s, Live: live}
		switch {
		case meta.IsNoMatchError(err):
			if !planned[s.Object.GroupVersionKind().GroupKind()] {
				state.Problem = &UnservedError{GVK: s.Object.GroupVersionKind(), Name: s.Object.GetName()}
			}
		case err != nil:
			return nil, err
		default:
			state.Problem = e.check(ctx, state)
		}
		if live != nil && s.IsCSV() {
			e.csvs[client.ObjectKeyFromObject(live)] = live.GetUID()
		}
		states = append(states, state)
	}
	return states, nil
}

func (e *Executor) live(ctx context.Context, s step.Step) (*unstructured.Unstructured, error) {
	if s.IsCRD() {
		return apply.Live(ctx, e.Facts, s.Object)
	}
	return apply.Live(ctx, e.Account, s.Object)
}

func (e *Executor) check(ctx context.Context, s State) error {
	if s.Step.IsCRD() {
		if s.Live != nil && s.Step.Owner.Owns(s.Live) {
			if err := losesVersion(s.Live, s.Step.Object); err != nil {
				return err
			}
		}
		if s.Live != nil && Serves(s.Live, s.Step.Object) {
			return nil
		}
		if err := cmp.Or(Reserved(s.Step), e.served.Taken(s.Step)); err != nil && !e.IsDefault {
			return err
		}
	}
	if err := apply.Check(s.Live, s.Step.Object, s.Step.Owner); err != nil {
		return err
	}
	if !rendered(s) {
		return nil
	}
	return e.roles(s).CheckBindings(ctx, s.Live, s.Step.Object)
}

// rendered reports whether an object is rendered from a CSV's permissions. Roles in a bundle are meant to be bound by
// users.
func rendered(s State) bool { return s.Step.Object.GetLabels()[names.LabelPermissionsHash] != "" }

func (e *Executor) roles(s State) Roles {
	return Roles{RBAC: e.RBAC, Owner: s.Step.Owner, Rendered: e.rendered, Live: e.Facts}
}

// Done is the result of a step: the status to display (Present if nothing had to be written, Created otherwise) and
// the resulting object.
type Done struct {
	Status operatorsv1alpha1.StepStatus
	Live   *unstructured.Unstructured
}

// Do applies the step's object. It checks the bindings of a role again, because the steps before it may have taken
// long.
func (e *Executor) Do(ctx context.Context, s State) (Done, error) {
	if s.Step.IsCRD() {
		live, err := e.restoreConversion(ctx, s)
		if err != nil {
			return Done{Status: operatorsv1alpha1.StepStatusUnknown}, err
		}
		s.Live = live
	}
	if !rendered(s) {
		return e.write(ctx, s)
	}
	done := Done{Status: operatorsv1alpha1.StepStatusUnknown}
	err := e.roles(s).guard(ctx, e.Account, s.Live, e.owned(s.Step), func(live *unstructured.Unstructured) (err error) {
		s.Live = live
		done, err = e.write(ctx, s)
		return err
	})
	return done, err
}

func (e *Executor) write(ctx context.Context, s State) (Done, error) {
	desired := e.owned(s.Step)
	writer := e.Writer(s.Step)
	if s.Step.IsCRD() {
		if s.Live != nil && !s.Step.Owner.Owns(s.Live) && Serves(s.Live, desired) {
			return Done{operatorsv1alpha1.StepStatusPresent, s.Live}, nil
		}
		keepConversion(desired, s.Live)
	}
	result, live, err := e.send(ctx, writer, s, desired)
	if err != nil {
		return Done{Status: operatorsv1alpha1.StepStatusUnknown}, err
	}
	if s.Step.IsCSV() {
		e.csvs[client.ObjectKeyFromObject(live)] = live.GetUID()
	}
	if result == apply.Unchanged {
		return Done{operatorsv1alpha1.StepStatusPresent, live}, nil
	}
	return Done{operatorsv1alpha1.StepStatusCreated, live}, nil
}

// Writer returns the client that writes the object of a step.
func (e *Executor) Writer(s step.Step) client.Client {
	if s.IsCRD() && (e.IsDefault || !Approved(s)) {
		return e.CRDs
	}
	return e.Account
}

// owned adds an owner reference to the CSV on objects in the CSV's namespace, the only ones for which the API
// supports it.
func (e *Executor) owned(s step.Step) *unstructured.Unstructured {
	desired := s.Object.DeepCopy()
	uid, ok := e.csvs[types.NamespacedName{Namespace: s.Owner.Namespace, Name: s.Owner.CSV}]
	if s.IsCSV() || !ok || desired.GetNamespace() != s.Owner.Namespace {
		return desired
	}
	owner := s.Owner
	owner.UID = uid
	desired.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
	return desired
}
