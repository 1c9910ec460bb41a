package csv

import (
	"context"
	"errors"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// accounts opens clients that act as an account; *scoped.Clients is the one that programs use.
type accounts interface {
	For(ctx context.Context, account scoped.Account) (client.Client, error)
	Open(account scoped.Account) (client.Client, error)
}

// enrolment says, by an *scoped.Error, that this program may not request an account's token.
type enrolment interface {
	Own(l rbac.Listers, account scoped.Account) error
}

// Options for New. All but Default and Clock are required.
type Options struct {
	// Client reads from the cache and writes the status, as self.
	Client client.Client
	// Live reads OperatorGroups and accounts past the cache.
	Live client.Reader
	// Accounts does everything else.
	Accounts accounts
	// Enrolment says whether they may be opened.
	Enrolment enrolment
	RBAC      rbac.Listers
	Recorder  events.EventRecorder
	// ServerVersion is the API server's version, as discovery tells it.
	ServerVersion func() (string, error)
	// Proofs proves which objects an install created.
	Proofs ownerutil.Proofs
	// Default is the installation's default account; none where it is zero.
	Default scoped.Default
	// Spared are Remit's namespaces, which no operator of a bounded group reaches.
	Spared []string
	// Certificates is how serving certificates are issued; the zero value is the contract's.
	Certificates cert.Policy
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Reconciler drives ClusterServiceVersions.
type Reconciler struct {
	client client.Client
	// lookup reads live, cached from the cache.
	lookup        scoped.Lookup
	cached        scoped.Lookup
	accounts      accounts
	enrolment     enrolment
	rbac          rbac.Listers
	proofs        ownerutil.Proofs
	confirmer     *preflight.Confirmer
	interests     *rbac.Interests[ctrl.Request]
	recorder      events.EventRecorder
	serverVersion func() (string, error)
	unserved      *kinds.Unserved
	spared        []string
	certificates  cert.Policy
	memory        *hooks.Memory
	edits         *edits
	metrics       *metrics
	clock         clock.PassiveClock
}

// New checks the options.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Accounts == nil || o.Enrolment == nil || o.Recorder == nil || o.ServerVersion == nil || o.RBAC.Roles == nil || o.Proofs == nil {
		return nil, errors.New("csv: Client, Live, Accounts, Enrolment, RBAC, Recorder, ServerVersion and Proofs are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{
		client:        o.Client,
		lookup:        scoped.Lookup{Reader: o.Live, Default: o.Default},
		cached:        scoped.Lookup{Reader: o.Client, Default: o.Default},
		accounts:      o.Accounts,
		enrolment:     o.Enrolment,
		rbac:          o.RBAC,
		proofs:        o.Proofs,
		confirmer:     &preflight.Confirmer{Ask: preflight.Reviews(o.Client)},
		interests:     &rbac.Interests[ctrl.Request]{},
		recorder:      o.Recorder,
		serverVersion: o.ServerVersion,
		unserved:      kinds.NewUnserved(o.Clock),
		spared:        o.Spared,
		certificates:  o.Certificates,
		memory:        &hooks.Memory{},
		edits:         &edits{},
		metrics:       newMetrics(o.Clock),
		clock:         o.Clock,
	}, nil
}

// Reconcile implements reconcile.Reconciler. A conflict means that the cache was behind: the event
// that it is waiting for comes back here.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r, looked := r.looking(req)
	defer looked()
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := r.client.Get(ctx, req.NamespacedName, csv); err != nil {
		r.metrics.forget(req.NamespacedName)
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{csv: csv, facts: Facts{CSV: csv.DeepCopy(), Now: r.clock.Now()}}
	if isCopy(csv) && csv.DeletionTimestamp == nil {
		return ctrl.Result{}, nil
	}
	if err := r.gatherNamespace(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	if csv.DeletionTimestamp != nil { // a copy, too: that it is one is for anyone to say
		s.facts.Obsolete = true
		return ctrl.Result{}, r.finalize(ctx, s)
	}
	if s.namespace.DeletionTimestamp != nil {
		s.facts.Obsolete = true
		return ctrl.Result{}, r.leave(ctx, s)
	}
	if err := r.gather(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	r.metrics.set(s)
	last, err := r.move(ctx, s)
	if err != nil || s.gone {
		return ctrl.Result{}, err
	}
	if err := r.finish(ctx, s); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	s.wakeAfter(last.After)
	return ctrl.Result{RequeueAfter: s.after}, nil
}

// gather finds the facts. What the operator needs besides its Deployments is made on the way
// (prepare), since the requirements are looked at with it in place.
func (r *Reconciler) gather(ctx context.Context, s *scope) error {
	if err := r.gatherSiblings(ctx, s); err != nil {
		return err
	}
	if err := r.gatherGroup(ctx, s); err != nil {
		return err
	}
	if s.facts.Group == nil {
		r.gatherStrategy(s)
	}
	if s.facts.Webhooks != nil || s.facts.APIs != nil {
		s.looked = true
		return r.requireHooks(s)
	}
	if !s.runnable() || s.facts.Waits != "" {
		return nil
	}
	s.looked = true
	s.checker = install.NewCSVRuleChecker(r.rbac.Roles, r.rbac.RoleBindings, r.rbac.ClusterRoles, r.rbac.ClusterRoleBindings, s.csv)
	for _, step := range []func(context.Context, *scope) error{
		r.gatherAccount, r.gatherHooks, r.prepare, r.gatherRequirements, r.judge,
		r.certify, r.gatherDeployments, r.gatherCalls, r.showBound, r.retire,
	} {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// onward is the way of an install. It is gone in one visit as far as the facts that were gathered allow, and never
// back: a status that would be left at once is a write, and an event for every watcher, that nobody has anything
// of. The conditions tell of each phase.
var onward = []operatorsv1alpha1.ClusterServiceVersionPhase{phasePending, phaseInstallReady, phaseInstalling}

// move goes from phase to phase and returns the last transition. Whatever was written ends it: the facts are of
// before.
func (r *Reconciler) move(ctx context.Context, s *scope) (Transition, error) {
	for {
		next := Next(s.facts)
		t, err := r.act(ctx, s, next)
		if err != nil || s.gone {
			return t, err
		}
		before := s.facts.CSV.Status.Phase
		s.pass(t)
		if next.Install || s.facts.Waits != "" || slices.Index(onward, t.Phase) <= slices.Index(onward, before) {
			return t, nil
		}
	}
}

// act does what the transition asks for; where that fails, the CSV goes elsewhere or says so.
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
	failed, ok := Failed(err)
	if !ok {
		return t, err
	}
	log.FromContext(ctx).Info("Installing was refused or failed", "reason", failed.Reason, "error", err.Error())
	return failed, nil
}

// finish writes the status, once, and says what happened.
func (r *Reconciler) finish(ctx context.Context, s *scope) error {
	after := s.facts.CSV
	if s.looked {
		after.SetRequirementStatus(s.shown())
		s.certificateStatus(&after.Status)
	}
	if err := status.Patch(ctx, r.client, s.csv, after); err != nil {
		return err
	}
	for _, m := range s.moves {
		log.FromContext(ctx).Info("Moved", "from", m.from, "phase", m.Phase, "reason", m.Reason)
		r.transitioned(s.csv, m.Transition)
	}
	return nil
}
