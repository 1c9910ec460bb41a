package execute

import (
	"cmp"
	"context"
	"sync/atomic"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// readsAtOnce bounds the number of objects that one plan reads at the same time.
const readsAtOnce = 4

// Executor executes the steps of one plan. Create one for each run.
type Executor struct {
	// Account writes everything except CustomResourceDefinitions.
	Account client.Client
	// Key is the account that is recorded on ClusterServiceVersions.
	Key types.NamespacedName
	// CRDs creates CustomResourceDefinitions, as the account or as the installation's own CRD account. It creates Approved
	// CustomResourceDefinitions only if Account is the default account; otherwise, Account writes them. It changes existing
	// ones unless State.ByAccount is set.
	CRDs client.Client
	// IsDefault is true if Account is the installation's default account. Only that account may write
	// CustomResourceDefinitions that are Reserved, or whose groups are Taken.
	IsDefault bool
	// Facts reads CustomResourceDefinitions, and the bindings of operators' roles, as the controller identity. The
	// account does not need permission to read them.
	Facts client.Reader
	// Cluster reads APIServices and lists CustomResourceDefinitions, preferably from a cache.
	Cluster client.Reader

	// RBAC finds the bindings that refer to an operator's role.
	RBAC rbac.Listers
	// Pruned records the fields that were removed from the objects of steps. If it is nil, no fields are removed.
	Pruned Pruned

	// Interrupt is called before each request of Gather and GatherNew, which return its error; nil means that nothing interrupts
	// them. It must be safe for concurrent use.
	Interrupt func() error
	// Place is called once or more when the existing objects need much memory. Its error means that the install must wait until others,
	// whose objects need much memory too, have been executed; Gather and GatherNew return it. It must be safe for concurrent use.
	Place func() error

	// rendered contains the bindings of the plan.
	rendered []*unstructured.Unstructured

	// served contains the owners of API groups, if the plan has CustomResourceDefinitions.
	served Served
	// csvs contains the UIDs of the plan's existing ClusterServiceVersions, for owner references.
	csvs map[types.NamespacedName]types.UID
	// accounts contains the ServiceAccounts that steps wrote, because a later step may share one of them.
	accounts map[string]*unstructured.Unstructured
	memory   memory
	// checked is created by each Gather, because an install can take long.
	checked *Checked
}

// State is the observed state of a step's object.
type State struct {
	Step step.Step
	// Live is nil if the object does not exist.
	Live *unstructured.Unstructured
	// Problem is the reason why the step cannot be executed: a collision, or a kind that the cluster does not serve or
	// that the account is not allowed to write.
	Problem error
	// ByAccount is true if Account changes an existing CustomResourceDefinition, although CRDs creates new ones
	// (docs/adr/0068).
	ByAccount bool
	// Kept is true if an existing CustomResourceDefinition needs no change, so nothing is written.
	Kept bool
	// Skipped is true if nothing is written because the object's namespace is occupied (see SkipOccupied).
	Skipped bool
	// accepted is true if the API server has already accepted the creation of the object in a dry run.
	accepted bool
}

// Gather reads the objects of all steps and determines their problems, so that all problems are known before the
// first write.
func (e *Executor) Gather(ctx context.Context, steps []step.Step) ([]State, error) {
	return e.gather(ctx, steps, e.live)
}

// GatherNew does the same as Gather with fewer requests if most of the objects do not exist yet. Where possible, it first
// sends the dry run of an object. If the response shows that the object does not exist, neither a read nor another dry
// run is needed. A binding to a role of the plan cannot be tried: GatherNew reads it only if the cache contains it, because
// the write fails if the object exists after all. It reads the other objects.
func (e *Executor) GatherNew(ctx context.Context, steps []step.Step) ([]State, error) {
	planned, made := PlannedKinds(steps), map[string]bool{}
	for _, s := range steps {
		made[apply.Describe(s.Object)] = true
	}
	isUnread := func(s step.Step) bool {
		return s.Object.GetKind() == "RoleBinding" && made[RoleOf(s.Object)] && isUncached(e.RBAC, s.Object)
	}
	states, err := e.gather(ctx, steps, func(ctx context.Context, s step.Step) observation {
		switch {
		case isUnread(s):
			return observation{}
		case made[RoleOf(s.Object)], planned[s.Object.GroupVersionKind().GroupKind()], s.IsCRD() && !e.mayBeNew(ctx, s):
			return e.live(ctx, s)
		case apply.WouldCreate(ctx, client.NewDryRunClient(e.creator(s)), s.Object, s.Owner):
			return observation{accepted: true}
		}
		return e.live(ctx, s)
	})
	for i := range states {
		states[i].accepted = states[i].accepted && len(e.csvs) == 0 // the dry runs had no owner references
	}
	if err == nil {
		err = e.checkUnseen(ctx, states, func(s State) bool { return s.Live == nil && isUnread(s.Step) })
	}
	return states, err
}

// mayBeNew reports whether the cache does not contain a CustomResourceDefinition, and the account may write it.
func (e *Executor) mayBeNew(ctx context.Context, s step.Step) bool {
	err := e.Cluster.Get(ctx, client.ObjectKeyFromObject(s.Object), &apiextensionsv1.CustomResourceDefinition{})
	return apierrors.IsNotFound(err) && e.protection(s) == nil
}

// protection returns the reason why a CustomResourceDefinition must not be written, or nil.
func (e *Executor) protection(s step.Step) error {
	if e.IsDefault {
		return nil
	}
	return cmp.Or(Reserved(s), e.served.Taken(s))
}

func (e *Executor) gather(ctx context.Context, steps []step.Step, read func(context.Context, step.Step) observation) ([]State, error) {
	e.csvs, e.accounts = map[types.NamespacedName]types.UID{}, map[string]*unstructured.Unstructured{}
	e.memory.restart()
	e.checked = &Checked{}
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
	observed := observe(ctx, steps, func(ctx context.Context, s step.Step) observation {
		if e.Interrupt != nil {
			if err := e.Interrupt(); err != nil {
				return observation{err: err}
			}
		}
		return read(ctx, s)
	})
	for i, s := range steps {
		live, err := observed[i].live, observed[i].err
		state := State{Step: s, Live: live, accepted: observed[i].accepted}
		switch {
		case observed[i].fails():
			return nil, err
		case observed[i].problem != nil:
			state.Problem = observed[i].problem
		case err != nil:
			if !planned[s.Object.GroupVersionKind().GroupKind()] {
				state.Problem = &UnservedError{GVK: s.Object.GroupVersionKind(), Name: s.Object.GetName()}
			}
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

// observation is the result of looking for the object of a step.
type observation struct {
	live     *unstructured.Unstructured
	err      error
	accepted bool
	// problem is the collision of an object that was judged at once, or an object for a target that needs too much memory.
	problem error
}

// fails reports whether an error ends the run, so that no further objects need to be read.
func (o observation) fails() bool { return o.err != nil && !meta.IsNoMatchError(o.err) }

// observe looks for the objects of the steps in order, readsAtOnce at a time. After a failure, it starts no further
// requests, but it always completes those for the objects before the first failed one.
func observe(ctx context.Context, steps []step.Step, read func(context.Context, step.Step) observation) []observation {
	observed := make([]observation, len(steps))
	var failed atomic.Bool
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for i := 0; i < len(steps) && !failed.Load(); i++ {
		group.Go(func() error {
			if observed[i] = read(ctx, steps[i]); observed[i].fails() {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // the observations contain the errors
	return observed
}

func (e *Executor) live(ctx context.Context, s step.Step) (o observation) {
	o.live, o.err = apply.LiveWithin(ctx, e.reader(s), s.Object, e.taking(s))
	if Occupies(o.err) && IsForTarget(s.Object, s.Owner) {
		return observation{problem: o.err}
	}
	return o
}

// Live reads an object that the account writes and that the caller keeps: it counts like those that Gather reads. It returns nil if the
// object does not exist.
func (e *Executor) Live(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return apply.LiveWithin(ctx, e.Account, desired, func(cost int64) error { return e.take(desired, cost) })
}

// reader reads the object of a step.
func (e *Executor) reader(s step.Step) client.Reader {
	if s.IsCRD() {
		return e.Facts
	}
	return e.Account
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
		if err := e.protection(s.Step); err != nil {
			return err
		}
	}
	if shares(s) {
		return nil
	}
	if err := apply.Check(s.Live, s.Step.Object, s.Step.Owner); err != nil {
		return err
	}
	if !rendered(s) {
		return nil
	}
	return e.roles(s).CheckBindings(ctx, s.Live, s.Step.Object)
}

// shares reports whether the object of a step is a ServiceAccount that another install in the namespace created. The step
// then only adds an owner reference.
func shares(s State) bool { return s.Live != nil && s.Step.Owner.Shares(s.Live) }

// rendered reports whether an object is rendered from a CSV's permissions. Roles from a bundle's manifests do not
// count, because users are expected to bind them.
func rendered(s State) bool { return s.Step.Object.GetLabels()[names.LabelPermissionsHash] != "" }

func (e *Executor) roles(s State) Roles {
	return Roles{RBAC: e.RBAC, Owner: s.Step.Owner, Rendered: e.rendered, Live: e.Facts, Checked: e.checked}
}

// Done is the result of a step: the status to display (Present if nothing had to be written, NotCreated if the step is
// skipped, otherwise Created) and the resulting object.
type Done struct {
	Status operatorsv1alpha1.StepStatus
	Live   *unstructured.Unstructured
}

// Do applies the step's object. It checks the bindings of a role again, because they may have changed while earlier
// steps were executed.
func (e *Executor) Do(ctx context.Context, s State) (Done, error) {
	if s.Skipped {
		return Done{Status: operatorsv1alpha1.StepStatusNotCreated}, nil
	}
	if s.Step.IsCRD() && !s.Kept {
		live, err := e.restoreConversion(ctx, s)
		if err != nil {
			return Done{Status: operatorsv1alpha1.StepStatusUnknown}, err
		}
		s.Live = live
	}
	if !rendered(s) {
		return e.write(ctx, s)
	}
	var done Done
	err := e.roles(s).guard(ctx, e.Account, s.Live, e.owned(s.Step), func(live *unstructured.Unstructured) (_ *unstructured.Unstructured, err error) {
		s.Live = live
		done, err = e.write(ctx, s)
		return done.Live, err
	})
	if err != nil {
		return Done{Status: operatorsv1alpha1.StepStatusUnknown}, err
	}
	return done, nil
}

func (e *Executor) write(ctx context.Context, s State) (Done, error) {
	desired := e.owned(s.Step)
	writer := e.writer(s)
	if s.Step.IsCSV() {
		e.record(desired, s.Live)
	}
	if s.Step.IsCRD() {
		if s.Kept || s.Live != nil && !s.Step.Owner.Owns(s.Live) && Serves(s.Live, desired) {
			return Done{operatorsv1alpha1.StepStatusPresent, s.Live}, nil
		}
		keepConversion(desired, s.Live)
	}
	if s.Live == nil {
		s.Live = e.accounts[apply.Describe(desired)]
	}
	if shares(s) {
		_, live, err := apply.Share(ctx, writer, s.Live, desired)
		if err != nil {
			return Done{Status: operatorsv1alpha1.StepStatusUnknown}, err
		}
		return Done{operatorsv1alpha1.StepStatusPresent, live}, nil
	}
	result, live, err := e.send(ctx, writer, s, desired)
	if err != nil {
		return Done{Status: operatorsv1alpha1.StepStatusUnknown}, err
	}
	e.remember(s, live)
	if result == apply.Unchanged {
		return Done{operatorsv1alpha1.StepStatusPresent, live}, nil
	}
	return Done{operatorsv1alpha1.StepStatusCreated, live}, nil
}

// record names the account in the annotation of a new ClusterServiceVersion. That of an existing one stays as it is: the
// controller of ClusterServiceVersions changes it without the spec, because another account may not be allowed to change both.
func (e *Executor) record(desired, live *unstructured.Unstructured) {
	account := ""
	switch {
	case live != nil:
		account = live.GetAnnotations()[names.AnnotationAccount]
	case e.Key.Name != "":
		account = e.Key.String()
	}
	if account != "" {
		apply.Annotate(desired, names.AnnotationAccount, account)
	}
}

// remember stores a written object that later steps need.
func (e *Executor) remember(s State, live *unstructured.Unstructured) {
	switch {
	case s.Step.IsCSV():
		e.csvs[client.ObjectKeyFromObject(live)] = live.GetUID()
	case live.GetKind() == "ServiceAccount" && e.accounts != nil:
		e.accounts[apply.Describe(live)] = live
	}
}

// owned returns a copy of the step's object. It adds an owner reference to the CSV if the CSV exists and is in the same
// namespace, because owner references cannot refer to other namespaces.
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
