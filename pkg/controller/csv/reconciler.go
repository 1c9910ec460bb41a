package csv

import (
	"context"
	"errors"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// accounts opens clients that act as an account. Programs use *scoped.Clients.
type accounts interface {
	For(ctx context.Context, account scoped.Account) (client.Client, error)
	Open(account scoped.Account) (client.Client, error)
}

// enrollment checks whether this program is allowed to request an account's token. Own returns a *scoped.Error if it is
// not.
type enrollment interface {
	Own(l rbac.Listers, account scoped.Account) error
}

// Options contains the dependencies of New. All fields except WatchSecret, Spared, Default, Certificates, Grace,
// Remover and Clock are required.
type Options struct {
	// Client reads from the cache, and writes the status as the controller identity.
	Client client.Client
	// Live reads OperatorGroups, accounts, ClusterServiceVersions, Deployments and RBAC directly from the API server.
	Live client.Reader
	// Accounts opens the clients that perform all other writes.
	Accounts accounts
	// Enrollment checks whether Accounts may open an account's client.
	Enrollment enrollment
	RBAC       rbac.Listers
	Recorder   events.EventRecorder
	// ServerVersion returns the API server's version according to discovery.
	ServerVersion func() (string, error)
	// Proofs verifies that an install created an object.
	Proofs ownerutil.Proofs
	// WatchSecret watches the metadata of one Secret as an account; nil means that no Secrets are watched.
	WatchSecret func(ctx context.Context, account scoped.Account, key types.NamespacedName) (watch.Interface, error)
	// Default is the installation's default account; the zero value means that there is none.
	Default scoped.Default
	// Spared lists Remit's namespaces, which the webhooks of a bounded group do not cover.
	Spared []string
	// Certificates configures the serving certificates; the zero value means the values that the contract defines.
	Certificates cert.Policy
	// Clock defaults to the system clock.
	Clock clock.PassiveClock
	// Grace is the time between the report that an operator exceeds its account and the removal of its permissions; 0 means
	// excess.DefaultGrace.
	Grace time.Duration
	// Remover opens the optional identity that removes what neither the account nor the default account may delete; nil
	// means that there is none.
	Remover excess.Remover
	// Copies contains the metadata of the ClusterServiceVersions that are labeled as copies, which Client does not read; nil
	// means that Client reads them as well.
	Copies cache.Cache
	// IsCopy reports whether Remit created an object as a copy; nil means that it creates none.
	IsCopy func(client.Object) bool
}

// Reconciler moves ClusterServiceVersions through their phases.
type Reconciler struct {
	Options
	confirmer *preflight.Confirmer
	interests *kit.Interests
	unserved  *kinds.Unserved
	memory    *hooks.Memory
	edits     *edits
	drift     *drift
	// refusals contains the failed CSVs for which a check has found, since they failed, that their writes would be
	// refused.
	refusals *keyed.Map[client.ObjectKey, bool]
	rivals   *rivals
	metrics  *metrics
	replaced *status.Replaced
	// orphaning contains the CSVs that are deleted with --cascade=orphan.
	orphaning *kit.Orphaning
	settling  *kit.Settling
	// excess contains the ends of the grace periods of CSVs that exceed their accounts, and told the reports of the attempts that have
	// removed nothing.
	excess  *excess.Timers[place]
	told    *keyed.Map[place, told]
	secrets *secretWatches
	// turns contains the runs that take another turn.
	turns *keyed.Map[client.ObjectKey, run]
	// named belongs to one reconcile.
	named *namedPackages
}

// New returns a Reconciler, or an error if required options are missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Accounts == nil || o.Enrollment == nil || o.Recorder == nil || o.ServerVersion == nil || o.RBAC.Roles == nil || o.Proofs == nil {
		return nil, errors.New("csv: Client, Live, Accounts, Enrollment, RBAC, Recorder, ServerVersion and Proofs are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Grace == 0 {
		o.Grace = excess.DefaultGrace
	}
	return &Reconciler{
		Options: o, confirmer: &preflight.Confirmer{Ask: preflight.Reviews(o.Client)}, interests: &kit.Interests{},
		unserved: kinds.NewUnserved(o.Clock), memory: &hooks.Memory{}, edits: &edits{}, drift: &drift{}, metrics: newMetrics(o.Clock),
		refusals: &keyed.Map[client.ObjectKey, bool]{}, rivals: &rivals{}, replaced: &status.Replaced{}, orphaning: &kit.Orphaning{}, settling: kit.NewSettling(),
		excess: &excess.Timers[place]{}, told: &keyed.Map[place, told]{}, secrets: newSecretWatches(o.WatchSecret),
		turns: &keyed.Map[client.ObjectKey, run]{},
	}, nil
}

// Reconcile implements reconcile.Reconciler. It does not return conflicts: they mean that the cache is outdated, and
// either the pending event or RequeueAfter triggers another reconcile.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tracked := *r
	r, tracked.named = &tracked, &namedPackages{}
	defer r.interests.Track(req, &r.RBAC)()
	if left, err := r.Default.Lookup(r.Client).LeavesToOLM(ctx, req.Namespace); left || err != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if exists, err := r.read(ctx, req.NamespacedName, csv); err != nil || !exists {
		return ctrl.Result{}, err
	}
	if r.replaced.Has(csv) {
		return ctrl.Result{RequeueAfter: r.replaced.Delay(csv)}, nil
	}
	s := &scope{csv: csv, facts: Facts{CSV: csv.DeepCopy(), Now: r.Clock.Now()}}
	if r.isInert(csv) && csv.DeletionTimestamp == nil {
		return ctrl.Result{}, nil
	}
	return r.reconcile(ctx, s)
}

// reconcile reconciles an existing CSV that is to be installed or that is being deleted.
func (r *Reconciler) reconcile(ctx context.Context, s *scope) (ctrl.Result, error) {
	if err := r.gatherNamespace(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	r.beginTurn(s)
	if s.csv.DeletionTimestamp != nil { // includes CSVs that are labeled as copies, because any user can set the label
		s.facts.Obsolete = true
		if err := errors.Join(r.finalize(ctx, s), r.gatherSiblings(ctx, s), r.gatherIntercepting(ctx, s)); err != nil {
			return ctrl.Result{}, err
		}
		return r.showRemoval(ctx, s)
	}
	if s.namespace.DeletionTimestamp != nil {
		s.facts.Obsolete = true
		err := r.detach(ctx, s)
		r.endTurn(s)
		return ctrl.Result{RequeueAfter: s.after}, err
	}
	if err := r.gather(ctx, s); err != nil || s.leftToOLM || s.recorded {
		return ctrl.Result{}, err
	}
	r.endTurn(s)
	r.metrics.set(s)
	r.noteRefusal(s)
	last, err := r.move(ctx, s)
	if err != nil || s.deleted {
		return ctrl.Result{}, err
	}
	r.forgetRefusal(s)
	if left := unsettled(s.facts, s.csv, r.settling); left > 0 {
		s.wakeAfter(left)
		return ctrl.Result{RequeueAfter: s.after}, nil
	}
	s.wakeAfter(last.After)
	return r.finish(ctx, s)
}

// gather collects the facts. It also creates the ServiceAccounts and roles that the operator needs, because the
// requirements include them. Until all of them are written, the other facts are not known.
func (r *Reconciler) gather(ctx context.Context, s *scope) error {
	if err := r.gatherSiblings(ctx, s); err != nil {
		return err
	}
	if err := r.gatherGroup(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(r.record(ctx, s), r.gatherExceeding(ctx, s), r.gatherIntercepting(ctx, s)); err != nil || s.recorded {
		return err
	}
	if err := r.gatherRivals(ctx, s); err != nil {
		return err
	}
	if s.facts.Group == nil {
		r.gatherStrategy(s)
	}
	if s.facts.Webhooks != nil || s.facts.APIs != nil {
		s.evaluated = true
		return r.requireHooks(ctx, s)
	}
	if !s.runnable() || s.facts.Waits != "" {
		return nil
	}
	return r.gatherInstall(ctx, s)
}

// gatherInstall collects the facts of an install that can proceed, and writes what the operator needs.
func (r *Reconciler) gatherInstall(ctx context.Context, s *scope) error {
	s.evaluated = true
	s.checker = install.NewCSVRuleChecker(r.RBAC.Roles, r.RBAC.RoleBindings, r.RBAC.ClusterRoles, r.RBAC.ClusterRoleBindings, s.csv)
	for _, step := range []func(context.Context, *scope) error{
		r.gatherAccount, r.gatherHooks, r.prepare, r.gatherRequirements, r.judge,
		r.watchSecrets, r.certify, r.gatherDeployments, r.restoreFields, r.gatherCalls, r.showBound, r.publish, r.retire,
	} {
		if err := step(ctx, s); err != nil || s.facts.Unwritten {
			return err
		}
	}
	return nil
}

// installPhases lists the phases of an install in order. One reconcile advances through as many as the gathered facts
// allow and never moves back, so phases that would be left immediately are not written to the API. The conditions
// record each phase.
var installPhases = []operatorsv1alpha1.ClusterServiceVersionPhase{phasePending, phaseInstallReady, phaseInstalling}

// move executes transitions until the CSV has to wait, and returns the last one. It stops after a write, because the
// facts are then outdated.
func (r *Reconciler) move(ctx context.Context, s *scope) (Transition, error) {
	for {
		next := Next(s.facts)
		t, err := r.act(ctx, s, next)
		if err != nil || s.deleted {
			return t, err
		}
		before := s.facts.CSV.Status.Phase
		s.pass(t)
		if next.Install || s.facts.Waits != "" || slices.Index(installPhases, t.Phase) <= slices.Index(installPhases, before) {
			return t, nil
		}
	}
}

// act executes a transition. If the install fails, it returns the transition that reports the failure, or an error that
// causes a retry.
func (r *Reconciler) act(ctx context.Context, s *scope, t Transition) (Transition, error) {
	switch {
	case t.Remove:
		return r.removeReplaced(ctx, s)
	case !t.Install:
		return t, nil
	}
	err := r.install(ctx, s)
	if err == nil {
		return t, nil
	}
	if left, ok := errors.AsType[*deployment.Unfinished](err); ok {
		return s.continueLater(t, left), nil
	}
	failed, ok := Failed(err)
	if !ok {
		return t, err
	}
	log.FromContext(ctx).Info("Install failed", "reason", failed.Reason, "error", err.Error())
	// The reconcile after this pause computes the delay of the next attempt. The status of a failure may differ from the one before only
	// in its times, which wakes nothing (status.Own).
	return failed.requeueAfter(minBackoff), nil
}

// finish patches the status once, and emits one event if the phase or reason changes. Phases that the same patch enters
// and leaves have no event: the conditions list them.
func (r *Reconciler) finish(ctx context.Context, s *scope) (ctrl.Result, error) {
	after := s.facts.CSV
	if s.evaluated {
		after.SetRequirementStatus(asLines(s.shown()))
		s.certificateStatus(&after.Status)
	}
	if err := r.replaced.Patch(ctx, r.Client, s.csv, after); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: status.CacheLag}, nil
		}
		return ctrl.Result{}, err
	}
	for _, m := range s.moves {
		log.FromContext(ctx).Info("Changed phase", "from", m.from, "phase", m.Phase, "reason", m.Reason)
		if m.Phase == phaseInstallReady {
			r.warnEscalation(s.csv)
		}
	}
	if n := len(s.moves); n > 0 {
		r.transitioned(s.csv, s.moves[n-1].Transition)
	}
	return ctrl.Result{RequeueAfter: s.after}, nil
}
