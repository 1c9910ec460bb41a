package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
)

// Options of New. All but Clock and Default are required.
type Options struct {
	// Client reads from the cache and writes InstallPlans and statuses, as self.
	Client client.Client
	// Live reads ClusterServiceVersions and Subscriptions past the cache, as self.
	Live     client.Reader
	Catalogs resolver.Catalogs
	RBAC     rbac.Listers
	Recorder events.EventRecorder
	// Proofs proves which ClusterServiceVersions an InstallPlan created.
	Proofs ownerutil.Proofs
	// GlobalCatalogNamespace is the one whose CatalogSources every namespace may use.
	GlobalCatalogNamespace string
	// Default is the installation's default account, if any.
	Default scoped.Default
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Reconciler resolves namespaces.
type Reconciler struct {
	Options
	indexes   *resolver.Indexes
	answers   *answers
	kinds     *kinds
	long      *long
	ask       preflight.Reviewer
	interests *rbac.Interests[ctrl.Request]
}

// New checks the options.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Catalogs == nil || o.RBAC.Roles == nil || o.Recorder == nil || o.Proofs == nil || o.GlobalCatalogNamespace == "" {
		return nil, errors.New("subscription: Client, Live, Catalogs, RBAC, Recorder, Proofs and GlobalCatalogNamespace are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	known := &answers{}
	r := &Reconciler{
		Options: o, indexes: &resolver.Indexes{}, answers: known, kinds: &kinds{}, long: newLong(o.Clock, known),
		ask: preflight.Reviews(o.Client), interests: &rbac.Interests[ctrl.Request]{},
	}
	r.long.served = func(ctx context.Context) (served, error) { return r.kinds.served(ctx, o.Client) }
	return r, nil
}

// Reconcile brings all Subscriptions of the namespace that the request names up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	world, err := r.gather(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	views, err := r.advance(ctx, world)
	errs := []error{err}
	for i := range world.subscriptions {
		sub := &world.subscriptions[i]
		if v := views[sub.UID]; v != nil {
			errs = append(errs, r.save(ctx, sub, *v))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: world.after}, nil
}

func (r *Reconciler) save(ctx context.Context, sub *operatorsv1alpha1.Subscription, v view) error {
	after := sub.DeepCopy()
	r.write(after, v)
	err := status.Patch(ctx, r.Client, sub, after)
	if err != nil && !apierrors.IsConflict(err) { // the event of the newer one wakes us
		return fmt.Errorf("Subscription %s: %w", client.ObjectKeyFromObject(sub), err)
	}
	return nil
}

// view is what there is to say of a Subscription.
type view struct {
	// installed is the CSV of the Subscription's package that exists, head the newest of its channel.
	installed *operatorsv1alpha1.ClusterServiceVersion
	head      string
	// plan is the InstallPlan that installs, or installed, it.
	plan *operatorsv1alpha1.InstallPlan
	// resolved is the CSV that the plan is for.
	resolved string
	// problem says why there is no plan; unpackFailed that the bundle's content could not be read, or the plan not made.
	problem      *resolver.Problem
	unpackFailed *reasoned
	// held says why the installed version stays although there is another.
	held *resolver.Problem
	// going says which version is still being deleted before it is installed again; "" where none is.
	going string
	// unpacking says which bundle is being unpacked; "" where none is.
	unpacking string
	// forward says that a version which has failed may be replaced.
	forward bool
	// deprecated are the notes of the catalog's author, "" where there are none.
	deprecated deprecations
	catalog    catalogView
	// account bounds what is installed.
	account scoped.Account
}

// inFlight says whether a plan is still to be carried out.
func inFlight(ip *operatorsv1alpha1.InstallPlan) bool {
	return ip.Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete &&
		ip.Status.Phase != operatorsv1alpha1.InstallPlanPhaseFailed
}

// settled says whether a plan in flight is to be left alone. One that still waits for approval, or whose
// content its catalog has no more, is resolved again: nobody shall approve or wait for what is gone.
func settled(ip *operatorsv1alpha1.InstallPlan) bool {
	if ip.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Reason == names.ReasonBundleContentUnavailable {
		return false
	}
	return ip.Spec.Approved || ip.Spec.Approval != operatorsv1alpha1.ApprovalManual
}

// asksOtherwise says whether a Subscription has changed since a plan was made for it, of which nothing is written yet: then it is
// resolved again, and a newer plan takes the place of that one.
func asksOtherwise(sub *operatorsv1alpha1.Subscription, isInstalled bool, made planned) bool {
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
