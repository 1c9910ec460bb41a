package installplan

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
)

// AccountClients returns clients that act as an account. scoped.Clients implements it.
type AccountClients interface {
	For(ctx context.Context, account scoped.Account) (client.Client, error)
}

// Options contains the dependencies of New. All fields except Clock, CRDAccount and Default are required.
type Options struct {
	// Client reads from the cache, and writes the status as the controller identity.
	Client client.Client
	// Live reads from the API server, as the controller identity.
	Live     client.Reader
	Accounts AccountClients
	// Enrollment determines whether an account is enrolled. Missing returns the users of Remit's programs that are not
	// allowed to request the account's token. Own returns a *scoped.Error if this program's own user is one of them.
	Enrollment interface {
		Missing(l rbac.Listers, account scoped.Account) ([]string, error)
		Own(l rbac.Listers, account scoped.Account) error
	}
	Catalogs resolver.Catalogs
	// ServerVersion returns the API server's version according to discovery.
	ServerVersion func() (string, error)
	RBAC          rbac.Listers
	// Proofs signs and verifies the proofs of the objects that plans create.
	Proofs   ownerutil.Proofs
	Recorder events.EventRecorder
	// Home is the namespace that Remit runs in.
	Home string
	// GlobalCatalogNamespace is the namespace whose CatalogSources are available in all namespaces.
	GlobalCatalogNamespace string
	// Default is the installation's default account; the zero value means that there is none.
	Default scoped.Default
	// CRDAccount is the account that writes CustomResourceDefinitions (docs/adr/0001); the zero value means that
	// there is none.
	CRDAccount types.NamespacedName
	// Clock defaults to the system clock.
	Clock clock.PassiveClock
}

// Reconciler executes InstallPlans.
type Reconciler struct {
	Options
	confirmer *preflight.Confirmer
	memory    *memory
	own       *status.Own
	owners    *owners
	unserved  *kinds.Unserved
	interests *kit.Interests
	large     *largeQueue
	// warnings counts the API server's warnings about the objects of plans.
	warnings prometheus.Counter
}

// New returns a Reconciler. It returns an error if a required option is missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Accounts == nil || o.Enrollment == nil || o.Catalogs == nil || o.ServerVersion == nil ||
		o.RBAC.Roles == nil || o.Proofs == nil || o.Recorder == nil || o.Home == "" || o.GlobalCatalogNamespace == "" {
		return nil, errors.New("installplan: Client, Live, Accounts, Enrollment, Catalogs, ServerVersion, RBAC, Proofs, Recorder, Home and GlobalCatalogNamespace are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{
		Options: o, interests: &kit.Interests{}, large: &largeQueue{clock: o.Clock}, warnings: newWarnings(),
		confirmer: &preflight.Confirmer{Ask: preflight.Reviews(o.Client)}, memory: &memory{}, own: &status.Own{},
		owners: &owners{}, unserved: kinds.NewUnserved(o.Clock),
	}, nil
}

// Reconcile executes one InstallPlan as far as possible. It ignores plans that are finished or being deleted, and plans in
// namespaces that OLM v0 manages.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tracked := *r
	r = &tracked
	defer r.interests.Track(req, &r.RBAC)()
	run := &run{reconciler: r, began: r.Clock.Now()}
	defer func() { r.large.end(req.NamespacedName, run.queued) }()
	if left, err := r.Default.Lookup(r.Client).LeavesToOLM(ctx, req.Namespace); left || err != nil {
		r.forget(req)
		return ctrl.Result{}, err
	}
	ip := &operatorsv1alpha1.InstallPlan{}
	err := r.Client.Get(ctx, req.NamespacedName, ip)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || finished(ip) || ip.DeletionTimestamp != nil {
		r.forget(req)
		return ctrl.Result{}, nil
	}
	if pause := r.authorPause(ip); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	run.saved, run.plan = ip, ip.DeepCopy()
	out, err := run.runPhases(ctx,
		decode,
		awaitApproval,
		findAccount,
		makeSteps,
		preflightPlan,
		awaitTurn,
		openClients,
		gather,
		chooseWriters,
		tryPlan,
		failIfSuperseded,
		applySteps,
		verify,
		awaitCRDs,
		deploy,
		complete,
	)
	run.awaitReport()
	switch {
	case errors.Is(err, errLeftToOLM):
		return ctrl.Result{}, nil
	case errors.Is(err, errStale):
		return ctrl.Result{RequeueAfter: status.CacheLag}, nil
	}
	err = errors.Join(run.report(out, err), run.unpublished)
	saveErr := run.save(ctx)
	switch {
	case errors.Is(saveErr, errStale):
		return ctrl.Result{RequeueAfter: status.CacheLag}, err
	case saveErr != nil:
		return ctrl.Result{}, errors.Join(err, saveErr)
	case finished(run.plan):
		r.forget(req) // a finished plan waits for nothing
		return ctrl.Result{}, err
	}
	return r.requeue(req, run, err)
}

// authorTime is how long the author of a plan has to write its status.
const authorTime = 5 * time.Second

// authorPause returns how long to wait before writing the status of a plan that a user created, or 0. OLM's clients
// create such a plan and then write its steps to the status with the resource version of the creation. Writing the status
// in between would make them fail with a conflict. The plan is refused as soon as it has steps, or after authorTime.
func (r *Reconciler) authorPause(ip *operatorsv1alpha1.InstallPlan) time.Duration {
	_, isOurs := ip.Annotations[names.AnnotationPlan]
	if isOurs || ip.Status.Phase != "" || len(ip.Status.Plan) > 0 || len(ip.Status.Conditions) > 0 {
		return 0
	}
	return min(ip.CreationTimestamp.Add(authorTime).Sub(r.Clock.Now()), authorTime)
}

// requeue schedules the next reconcile if watches might not report the change that the plan waits for.
func (r *Reconciler) requeue(req ctrl.Request, run *run, err error) (ctrl.Result, error) {
	switch {
	case !kit.Is[*refused](err) || run.unpublished != nil:
		r.memory.passed(req.NamespacedName)
		if err == nil && !run.recheckAt.IsZero() { // the plan waits for other users of a definition, which no watch reports
			return ctrl.Result{RequeueAfter: max(run.recheckAt.Sub(r.Clock.Now()), fairqueue.FirstRetry)}, nil
		}
		return ctrl.Result{}, err
	case !run.recheckAt.IsZero():
		return ctrl.Result{RequeueAfter: max(run.recheckAt.Sub(r.Clock.Now()), fairqueue.FirstRetry)}, nil
	}
	return ctrl.Result{RequeueAfter: r.memory.next(req.NamespacedName)}, nil
}

// forget drops cached data of a plan that is finished or deleted.
func (r *Reconciler) forget(req ctrl.Request) {
	r.confirmer.Forget(req.String())
	r.memory.Delete(req.NamespacedName)
	r.own.Forget(req.NamespacedName)
}

func finished(ip *operatorsv1alpha1.InstallPlan) bool {
	return ip.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete ||
		ip.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed
}

// errStale means that the cached InstallPlan is outdated. The plan is reconciled again after status.CacheLag, because the
// pending watch event does not wake a plan whose newer version this controller has written.
var errStale = errors.New("the InstallPlan has changed since it was read")

// errLeftToOLM means that OLM v0 manages the plan's namespace, and that the cache does not show the OperatorGroup yet. The
// pending event of the OperatorGroup wakes the plan.
var errLeftToOLM = errors.New("OLM v0 manages the namespace")

// checkCurrent reads the plan again, live, before anything is sent. An outdated cache must not lead to another
// execution of a plan that is already finished, or that was deleted together with the objects that it created.
func (s *run) checkCurrent(ctx context.Context) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.InstallPlanKind))
	err := s.checkExists(ctx, s.reconciler.Live, live)
	if err == nil && live.ResourceVersion != s.saved.ResourceVersion {
		return errStale
	}
	return err
}

// checkNotDeleted returns errStale if the cache shows that the plan was deleted during its execution.
func (s *run) checkNotDeleted(ctx context.Context) error {
	return s.checkExists(ctx, s.reconciler.Client, &operatorsv1alpha1.InstallPlan{})
}

// checkExists reads the plan into the given object. It returns errStale if the plan was deleted or is being deleted.
func (s *run) checkExists(ctx context.Context, from client.Reader, plan client.Object) error {
	exists, err := apply.Read(ctx, from, s.key(), plan)
	if err == nil && (!exists || plan.GetUID() != s.saved.UID || plan.GetDeletionTimestamp() != nil) {
		return errStale
	}
	return err
}

// save patches the status with the changes since the last save. It returns errStale if another client has changed the
// plan.
func (s *run) save(ctx context.Context) error {
	if s.plan.Status.CatalogSources == nil {
		s.plan.Status.CatalogSources = []string{}
	}
	s.keepTimes()
	err := s.reconciler.own.Patch(ctx, s.reconciler.Client, s.saved, s.plan)
	switch {
	case apierrors.IsConflict(err):
		return errStale
	case err != nil:
		return fmt.Errorf("InstallPlan: %w", err)
	}
	s.saved = s.plan.DeepCopy()
	return nil
}
