package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
)

// Options contains the dependencies of New. All fields except Clock and Default are required.
type Options struct {
	// Client reads from the cache, and writes Subscriptions, InstallPlans and statuses as the controller identity.
	Client client.Client
	// Live reads ClusterServiceVersions, InstallPlans, OperatorGroups and Subscriptions from the API server as the controller
	// identity.
	Live     client.Reader
	Catalogs Catalogs
	RBAC     rbac.Listers
	Recorder events.EventRecorder
	// Proofs verifies that an InstallPlan created a ClusterServiceVersion.
	Proofs ownerutil.Proofs
	// GlobalCatalogNamespace is the namespace whose CatalogSources are available in all namespaces.
	GlobalCatalogNamespace string
	// Default is the installation's default account; the zero value means that there is none.
	Default scoped.Default
	// Journal records which namespaces are being resolved outside the controller's workers; it may be nil.
	Journal *journal.Journal
	// Clock defaults to the system clock.
	Clock clock.PassiveClock
}

// Catalogs provides the content of the CatalogSources (catalog.Store).
type Catalogs interface {
	resolver.Catalogs
	// IsLoading reports whether nothing is known yet about the content of a CatalogSource.
	IsLoading(key types.NamespacedName) bool
}

// Reconciler resolves the Subscriptions of a namespace, creates its InstallPlans and writes the Subscriptions' status.
type Reconciler struct {
	Options
	indexes   *resolver.Indexes
	answers   *answers
	kinds     *kinds
	long      *longQueue
	ask       preflight.Reviewer
	interests *kit.Interests
	metrics   *metrics
	replaced  *status.Replaced
	reloading *reloading
	settling  *kit.Settling
}

// New returns a Reconciler, or an error if a required option is missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Catalogs == nil || o.RBAC.Roles == nil || o.Recorder == nil || o.Proofs == nil || o.GlobalCatalogNamespace == "" {
		return nil, errors.New("subscription: Client, Live, Catalogs, RBAC, Recorder, Proofs and GlobalCatalogNamespace are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	known := &answers{}
	r := &Reconciler{
		Options: o, indexes: &resolver.Indexes{}, answers: known, kinds: &kinds{}, long: newLongQueue(o.Clock, known),
		ask: preflight.Reviews(o.Client), interests: &kit.Interests{}, metrics: newMetrics(o.Clock), replaced: &status.Replaced{}, reloading: &reloading{}, settling: kit.NewSettling(),
	}
	r.long.metrics, r.long.journal = r.metrics, o.Journal
	r.long.served = func(ctx context.Context) (served, error) { return r.kinds.served(ctx, o.Client) }
	return r, nil
}

// Reconcile resolves and updates all Subscriptions in the namespace that the request names.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	left, err := r.Default.Lookup(r.Client).LeavesToOLM(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	var world *world
	if !left {
		tracked := r.RBAC
		defer r.interests.Track(request(req.Name), &tracked)()
		if world, err = r.gather(ctx, req.Name, tracked); err != nil {
			return ctrl.Result{}, err
		}
	}
	if left || world.leftToOLM {
		r.long.drop(req.Name)
		r.answers.Delete(req.Name)
		return ctrl.Result{}, nil
	}
	r.metrics.reconciled(req.Name, world.subscriptions)
	views, err := r.advance(ctx, world)
	errs := []error{err}
	r.replaced.ForgetFunc(func(key client.ObjectKey) bool { return key.Namespace == req.Name && !world.hasSubscription(key.Name) })
	for i := range world.subscriptions {
		sub := &world.subscriptions[i]
		if v := views[sub.UID]; v != nil {
			errs = append(errs, r.save(ctx, world, sub, *v))
			continue
		}
		errs = append(errs, r.record(ctx, world, sub))
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: world.after}, nil
}

// save patches the status of a Subscription, unless the Subscription is an outdated version. If the status only shows the progress
// of a new plan, or only differs because catalogs are being loaded after a restart, another reconcile writes it.
func (r *Reconciler) save(ctx context.Context, w *world, sub *operatorsv1alpha1.Subscription, v view) error {
	if r.replaced.Has(sub) {
		w.wakeAfter(r.replaced.Delay(sub))
		return nil
	}
	after := sub.DeepCopy()
	r.write(after, v)
	if w.isLoading && v.catalog.wasHealthy(&sub.Status) && !v.hasNews(&sub.Status, &after.Status) && r.reloading.hold(w.namespace) {
		return nil
	}
	if left := r.unsettled(v, &sub.Status, &after.Status); left > 0 {
		w.wakeAfter(left)
		return nil
	}
	err := r.replaced.Patch(ctx, r.Client, sub, after)
	if apierrors.IsConflict(err) {
		w.wakeAfter(status.CacheLag)
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status of Subscription %s: %w", client.ObjectKeyFromObject(sub), err)
	}
	for _, c := range newFailures(&sub.Status, &after.Status) {
		r.Recorder.Eventf(sub, nil, corev1.EventTypeWarning, string(c.Type), "Resolve", "%s", status.Note(message.Reread(c.Message)))
	}
	if c, ok := newWebhooks(&sub.Status, &after.Status); ok {
		r.Recorder.Eventf(sub, nil, corev1.EventTypeNormal, string(c.Type), "Install", "%s", status.Note(c.Message))
	}
	if warning := newEscalation(&sub.Status, &after.Status); warning != "" {
		r.Recorder.Eventf(sub, nil, corev1.EventTypeWarning, preflight.EventEscalation, "Preflight", "%s", status.Note(warning))
	}
	return nil
}

// record records the account of a Subscription whose status does not change otherwise, for example while the resolution of its
// namespace is queued: its author was compared with the account (docs/adr/0085).
func (r *Reconciler) record(ctx context.Context, w *world, sub *operatorsv1alpha1.Subscription) error {
	account := scoped.ToRecord(w.named, recordedAccount(&sub.Status))
	if sub.DeletionTimestamp != nil || account == recordedAccount(&sub.Status) {
		return nil
	}
	if r.replaced.Has(sub) {
		w.wakeAfter(r.replaced.Delay(sub))
		return nil
	}
	after := sub.DeepCopy()
	now := metav1.NewTime(r.Clock.Now())
	after.Status.SetCondition(accountCondition(account, now))
	after.Status.LastUpdated = now
	err := r.replaced.Patch(ctx, r.Client, sub, after)
	if apierrors.IsConflict(err) {
		w.wakeAfter(status.CacheLag)
		return nil
	}
	if err != nil {
		return fmt.Errorf("record the account of Subscription %s: %w", client.ObjectKeyFromObject(sub), err)
	}
	return nil
}

// view contains what a reconcile has determined about a Subscription. The Subscription's status is derived from it.
type view struct {
	// installed is the newest existing CSV of the Subscription's package, or nil; head is the newest version in the Subscription's
	// channel.
	installed *operatorsv1alpha1.ClusterServiceVersion
	head      string
	// plan is the InstallPlan that installs or has installed the CSV.
	plan *operatorsv1alpha1.InstallPlan
	// pinned is the Subscription's pin in a plan that is in progress and must not be replaced, or nil.
	pinned *resolver.Pin
	// unfinished is true if the plan that wrote the installed version may not have been completed.
	unfinished bool
	// resolved is the name of the CSV that the plan installs or, without a plan, of the installed CSV.
	resolved string
	// problem is the reason that there is no plan. unpackFailed is the reason that the bundle's content could not be
	// read or the plan could not be created.
	problem      *resolver.Problem
	unpackFailed *reasoned
	// tooLarge is true if the cache contains only a part of the Subscription. The problem then says so.
	tooLarge bool
	// heldBack is the reason that the installed version is kept although another version is available.
	heldBack *resolver.Problem
	// missing describes the permissions that the account is missing according to the resolution, as long as there is no plan;
	// "" if there are none.
	missing string
	// deleting describes a version that has to be deleted completely before it is installed again, or is "".
	deleting string
	// unpacking describes a bundle that is still being unpacked, or is "".
	unpacking string
	// forward is true if failed versions can be replaced.
	forward bool
	// deprecated contains the deprecation messages of the catalog's author for this Subscription.
	deprecated deprecations
	catalog    catalogView
	// account bounds the install. named is the account to record, "<namespace>/<name>": it may not be able to install anything.
	account scoped.Account
	named   string
}

// inFlight reports whether a plan is neither complete nor failed.
func inFlight(ip *operatorsv1alpha1.InstallPlan) bool {
	return ip.Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete &&
		ip.Status.Phase != operatorsv1alpha1.InstallPlanPhaseFailed
}

// isFixed reports whether a plan in flight must not be replaced. If the plan waits for approval, or the content of its
// bundles is not available, it may be replaced, because it may be outdated.
func isFixed(ip *operatorsv1alpha1.InstallPlan) bool {
	if ip.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Reason == names.ReasonBundleContentUnavailable {
		return false
	}
	return ip.Spec.Approved || ip.Spec.Approval != operatorsv1alpha1.ApprovalManual
}

// hasChanged reports whether a Subscription has changed since its plan was created. It returns false once the plan has
// written anything. If it returns true, the Subscription is resolved again, and a newer plan replaces the existing one.
func hasChanged(sub *operatorsv1alpha1.Subscription, isInstalled bool, made planned) bool {
	begun := slices.ContainsFunc(made.plan.Status.Plan, func(s *operatorsv1alpha1.Step) bool { return s.Status == operatorsv1alpha1.StepStatusCreated })
	if begun {
		return false
	}
	spec, pin := sub.Spec, made.pin
	moved := spec.Channel != "" && spec.Channel != pin.Channel || spec.CatalogSource != pin.Catalog ||
		spec.CatalogSourceNamespace != pin.CatalogNamespace || spec.Package != pin.Package
	restarts := !isInstalled && pin.Replaces == "" && spec.StartingCSV != pin.StartingCSV && spec.StartingCSV != pin.Bundle
	return moved || restarts
}
