package operatorgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// enroller lists the users that are not allowed to request an account's token. controller.Enrollment implements it.
type enroller interface {
	Missing(l rbac.Listers, account scoped.Account) ([]string, error)
}

// accounts opens clients that act as an account. Programs use *scoped.Clients.
type accounts interface {
	For(ctx context.Context, account scoped.Account) (client.Client, error)
}

// Options contains the dependencies of New. All fields except Default, Grace, Remover and Clock are required.
type Options struct {
	// Client reads from the cache and writes the status.
	Client client.Client
	// Live reads OperatorGroups and accounts directly from the API server.
	Live client.Reader
	// Accounts opens the clients that perform all other writes.
	Accounts accounts
	RBAC     rbac.Listers
	// Proofs verifies that a ClusterRole was created for an OperatorGroup.
	Proofs ownerutil.Proofs
	// Default is the installation's default account; the zero value means that there is none.
	Default scoped.Default
	// Enrollment lists the users that are not allowed to request the account's token.
	Enrollment enroller
	Recorder   events.EventRecorder
	// Grace is the time between the report that permissions exceed the account and their removal; 0 means excess.DefaultGrace.
	Grace time.Duration
	// Remover opens the optional identity that removes what neither the account nor the default account may delete; nil
	// means that there is none.
	Remover excess.Remover
	// Clock defaults to the system clock.
	Clock clock.PassiveClock
}

// Reconciler maintains the status of OperatorGroups and, as their accounts, the objects that publish their APIs and targets.
type Reconciler struct {
	Options
	own       *status.Own
	interests *kit.Interests
	ask       preflight.Reviewer
	// confirmer caches what the API server has answered about webhooks, and unserved which kinds it does not serve.
	confirmer *preflight.Confirmer
	unserved  *kinds.Unserved
	// known contains the account of each OperatorGroup that has a usable one, to clean up after the OperatorGroup is deleted, and swept
	// when an account was last used to remove labels of OperatorGroups that do not exist.
	known *keyed.Map[client.ObjectKey, scoped.Account]
	swept *keyed.Map[client.ObjectKey, time.Time]
	// ages contains, by namespace, the ages of permissions that exceed the account, told the last report about them, and
	// attempts when their removal was last tried.
	ages *excess.Ages
	told *keyed.Map[string, Excess]
	// unsaved contains the reports about removals that no status contains yet.
	unsaved  *keyed.Map[client.ObjectKey, Excess]
	attempts *excess.Timers[string]
}

// New returns a Reconciler, or an error if a required option is missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Accounts == nil || o.RBAC.Roles == nil || o.Proofs == nil || o.Enrollment == nil || o.Recorder == nil {
		return nil, errors.New("operatorgroup: Client, Live, Accounts, RBAC, Proofs, Enrollment and Recorder are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Grace == 0 {
		o.Grace = excess.DefaultGrace
	}
	ask := preflight.Reviews(o.Client)
	return &Reconciler{
		confirmer: &preflight.Confirmer{Ask: ask}, unserved: kinds.NewUnserved(o.Clock),
		Options: o, own: &status.Own{}, interests: &kit.Interests{}, ask: ask, known: &keyed.Map[client.ObjectKey, scoped.Account]{}, swept: &keyed.Map[client.ObjectKey, time.Time]{},
		ages: &excess.Ages{}, told: &keyed.Map[string, Excess]{}, unsaved: &keyed.Map[client.ObjectKey, Excess]{}, attempts: &excess.Timers[string]{},
	}, nil
}

// Reconcile updates the status of one OperatorGroup and publishes its APIs and targets. If the OperatorGroup was deleted,
// Reconcile cleans up. It does nothing if the OperatorGroup leaves its namespace to OLM v0. A request without a name is for a
// namespace without an OperatorGroup.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tracked := *r
	r = &tracked
	defer r.interests.Track(req, &r.RBAC)()
	group := &operatorsv1.OperatorGroup{}
	if req.Name == "" {
		return r.reconcileDeleted(ctx, req.NamespacedName)
	}
	exists, err := apply.Read(ctx, r.Client, req.NamespacedName, group)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case !exists:
		return r.reconcileDeleted(ctx, req.NamespacedName)
	case group.DeletionTimestamp != nil:
		return r.reconcileDeleting(ctx, group)
	case scoped.LeftToOLM(group):
		// A condition or an Event would be a write to a namespace that OLM manages; "kubectl remit status" reports this state.
		log.FromContext(ctx).Info("Skipping the namespace, which the OperatorGroup leaves to OLM", "annotation", names.AnnotationManagedBy)
		return ctrl.Result{}, nil
	}
	return r.reconcileGroup(ctx, req, group)
}

// reconcileDeleting removes what exceeds the account: a finalizer must not keep permissions that the account has lost.
func (r *Reconciler) reconcileDeleting(ctx context.Context, group *operatorsv1.OperatorGroup) (ctrl.Result, error) {
	found, after, err := r.checkExcess(ctx, group.Namespace)
	if err == nil {
		r.announce(group.Namespace, group, found)
	}
	return ctrl.Result{RequeueAfter: after}, err
}

func (r *Reconciler) reconcileGroup(ctx context.Context, req ctrl.Request, group *operatorsv1.OperatorGroup) (ctrl.Result, error) {
	facts, err := r.gather(ctx, group)
	if err != nil {
		return ctrl.Result{}, err
	}
	var after time.Duration
	if facts.Excess, after, err = r.checkExcess(ctx, group.Namespace); err != nil {
		return ctrl.Result{}, err
	}
	facts.Excess = r.keepReport(req.NamespacedName, facts.Excess)
	if facts.publishes() {
		wake, done, err := r.maintain(ctx, &facts)
		if err != nil || done {
			return ctrl.Result{RequeueAfter: wake}, err
		}
		after = kit.Sooner(after, wake)
	}
	result, err := r.updateStatus(ctx, facts, after)
	if err == nil && facts.Undecided != nil {
		return ctrl.Result{}, fmt.Errorf("%w: %w", facts.Undecided, facts.Undecided.Err)
	}
	return result, err
}

// maintain writes what the account publishes for an OperatorGroup, and removes the labels of OperatorGroups that do not exist. wake is
// the time until the next reconcile that is necessary without an event. done is true if the cached OperatorGroup is outdated.
func (r *Reconciler) maintain(ctx context.Context, f *Facts) (wake time.Duration, done bool, err error) {
	r.known.Set(client.ObjectKeyFromObject(f.Group), f.Account)
	annotated, err := r.publish(ctx, f)
	if err == nil && !annotated {
		wake, err = r.sweep(ctx, f.Account, func() (client.Client, error) { return r.accountClient(ctx, f) })
	}
	if apierrors.IsConflict(err) {
		return cacheLag, true, nil
	}
	return wake, annotated, err // the event for the annotation triggers another reconcile
}

// keepReport returns the report of a removal that no status contains yet, unless there is a newer report. It is kept until
// updateStatus has saved it, because the removal cannot be determined afterwards.
func (r *Reconciler) keepReport(key client.ObjectKey, is Excess) Excess {
	switch is.Reason {
	case "":
		return r.unsaved.Get(key)
	case ReasonRemoved:
		r.unsaved.Set(key, is)
	default:
		r.unsaved.Delete(key)
	}
	return is
}

// updateStatus patches the status if it has changed.
func (r *Reconciler) updateStatus(ctx context.Context, facts Facts, wake time.Duration) (ctrl.Result, error) {
	group := facts.Group
	r.announce(group.Namespace, group, facts.Excess)
	want := Desired(facts)
	if group.Status.LastUpdated != nil && equality.Semantic.DeepEqual(group.Status, want) {
		r.unsaved.Delete(client.ObjectKeyFromObject(group))
		return ctrl.Result{RequeueAfter: wake}, nil
	}
	after := group.DeepCopy()
	after.Status = want
	after.Status.LastUpdated = &metav1.Time{Time: r.Clock.Now()}
	err := r.own.Patch(ctx, r.Client, group, after)
	if apierrors.IsConflict(err) {
		// The cache is outdated. The pending event triggers no reconcile if the predicates drop it.
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	}
	if err == nil {
		r.unsaved.Delete(client.ObjectKeyFromObject(group))
	}
	return ctrl.Result{RequeueAfter: wake}, err
}

// reconcileDeleted cleans up after an OperatorGroup was deleted. If it was the last one of its namespace, or for a request
// without a name, reconcileDeleted also removes permissions that exceed what is left, because no other request does.
func (r *Reconciler) reconcileDeleted(ctx context.Context, key client.ObjectKey) (ctrl.Result, error) {
	var more time.Duration
	if key.Name != "" {
		var err error
		if more, err = r.cleanUp(ctx, key); err != nil {
			return ctrl.Result{}, err
		}
	}
	_, err := r.Default.Lookup(r.Client).OperatorGroup(ctx, key.Namespace)
	if scoped.ReasonOf(err) != scoped.NoOperatorGroup {
		if scoped.ReasonOf(err) != "" {
			err = nil // the remaining OperatorGroups have requests of their own
		}
		return ctrl.Result{RequeueAfter: more}, err
	}
	found, after, err := r.checkExcess(ctx, key.Namespace)
	if err == nil {
		r.announce(key.Namespace, nil, found)
	}
	return ctrl.Result{RequeueAfter: kit.Sooner(after, more)}, err
}

func (r *Reconciler) gather(ctx context.Context, group *operatorsv1.OperatorGroup) (Facts, error) {
	f := Facts{Group: group}
	all := &operatorsv1.OperatorGroupList{}
	if err := r.Client.List(ctx, all, client.InNamespace(group.Namespace)); err != nil {
		return f, fmt.Errorf("list OperatorGroups in namespace %q: %w", group.Namespace, err)
	}
	for i := range all.Items {
		if all.Items[i].Name != group.Name {
			f.Siblings++
		}
	}
	if err := r.gatherTargets(ctx, &f); err != nil {
		return f, err
	}
	account, err := r.Default.Lookup(r.Client).AccountOf(ctx, group)
	if err != nil {
		if !errors.As(err, &f.Problem) {
			return f, err
		}
		return f, nil
	}
	f.Account = account
	if f.NotEnrolled, err = r.Enrollment.Missing(r.RBAC, account); err != nil {
		return f, err
	}
	if f.Siblings > 0 || f.TooMany != nil || f.TooMuch != nil || f.Undecided != nil {
		return f, nil // nothing is installed for this group, so the grants do not matter
	}
	f.WithoutGrants, err = r.namespacesWithoutGrants(group.Namespace, account, f.Targets)
	if err = preflight.AsAccountError(account.Identity(), err); scoped.ReasonOf(err) != "" {
		errors.As(err, &f.TooMuch)
		return f, nil
	}
	return f, err
}

// namespacesWithoutGrants lists the target namespaces in which the account has no permissions beyond those that every
// ServiceAccount in its namespace has, or in which it has more roles than Remit evaluates.
func (r *Reconciler) namespacesWithoutGrants(own string, account scoped.Account, targets []string) ([]string, error) {
	subject := rbac.ServiceAccount(account.Namespace, account.Name)
	if _, err := r.RBAC.EffectiveRules(subject, own); err != nil {
		return nil, fmt.Errorf("determine the effective rules of %s: %w", subject.User, err)
	}
	var out []string
	for _, namespace := range targets {
		if namespace == own || namespace == scoped.AllNamespaces {
			continue
		}
		granted := r.RBAC.LowerBound(subject, namespace)
		if err := errors.Join(granted.ReadErrors...); err != nil {
			return nil, fmt.Errorf("determine the effective rules of %s: %w", subject.User, err)
		}
		all := r.RBAC.LowerBound(rbac.Subject{Groups: subject.Groups}, namespace)
		if err := errors.Join(all.ReadErrors...); err != nil {
			return nil, fmt.Errorf("determine the effective rules of all ServiceAccounts: %w", err)
		}
		if len(granted.NotKept) == len(all.NotKept) && len(all.Set().Missing(granted.Rules)) == 0 {
			out = append(out, namespace)
		}
	}
	return out, nil
}

// gatherTargets determines the target namespaces. It records problems that only users can resolve, such as an invalid
// selector, in the facts, and returns an error if a read fails.
func (r *Reconciler) gatherTargets(ctx context.Context, f *Facts) error {
	if len(f.Group.Spec.TargetNamespaces) == 0 && f.Group.Spec.Selector != nil {
		if _, err := scoped.Selector(f.Group); err != nil {
			f.InvalidSelector = fmt.Errorf("spec.selector: %w", err)
			return nil
		}
	}
	var err error
	f.Targets, err = r.Default.Lookup(r.Client).Targets(ctx, f.Group, preflight.NamespaceFilter{RBAC: r.RBAC, Ask: r.ask})
	if errors.As(err, &f.Undecided) {
		return nil
	}
	switch scoped.ReasonOf(err) {
	case "":
		return err
	case scoped.TooManyTargets:
		errors.As(err, &f.TooMany)
		return nil
	case scoped.AccountHoldsTooMuch:
		errors.As(err, &f.TooMuch)
		return nil
	default:
		return nil // gather records the same problem with the account
	}
}
