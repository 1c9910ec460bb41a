package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
)

// Clients creates clients that act as an identity. scoped.Clients implements it.
type Clients interface {
	As(ctx context.Context, identity scoped.Identity) (client.WithWatch, error)
	Connect(identity scoped.Identity) (*rest.Config, *http.Client, error)
}

// Options contains the dependencies of New. All fields are required except Spared, Provider, Certificates, Grace, Remover
// and Clock.
type Options struct {
	// Client reads from the cache, and writes statuses and reports as the controller identity.
	Client client.Client
	// Live reads from the API server, as the controller identity.
	Live    client.Reader
	Clients Clients
	// ControllerIdentity is the user that this program runs as. It must be allowed to act as the identities of extensions
	// (enrollment).
	ControllerIdentity rbac.Subject
	// Catalogs contains the content of ClusterCatalogs. catalog.Store implements it.
	Catalogs resolver.Catalogs
	RBAC     rbac.Listers
	// Proofs signs and verifies the proofs of installed objects.
	Proofs   Proofs
	Recorder events.EventRecorder
	// ServerVersion returns the API server's version according to discovery.
	ServerVersion func() (string, error)
	// Namespace is the namespace that Remit runs in. It contains the reports.
	Namespace string
	// Spared lists namespaces that webhooks for all namespaces do not cover.
	Spared []string
	// Provider issues the certificates of webhooks and APIs.
	Provider serving.Provider
	// Certificates configures the certificates that Remit issues.
	Certificates cert.Policy
	// Grace is the time between the report that an extension exceeds its identity and the removal of its permissions; 0 means
	// excess.DefaultGrace.
	Grace time.Duration
	// Remover opens the optional identity that removes what the identity may not delete; nil means that there is none.
	Remover excess.Remover
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

func (o Options) validate() error {
	if o.Client == nil || o.Live == nil || o.Clients == nil || o.ControllerIdentity.User == "" || o.Catalogs == nil || o.RBAC.Roles == nil ||
		o.Proofs == nil || o.Recorder == nil || o.ServerVersion == nil || o.Namespace == "" {
		return errors.New("clusterextension: Client, Live, Clients, ControllerIdentity, Catalogs, RBAC, Proofs, Recorder, ServerVersion and Namespace are required")
	}
	return nil
}

// Reconciler reconciles ClusterExtensions.
type Reconciler struct {
	Options
	confirmer *preflight.Confirmer
	unserved  *kinds.Unserved
	indexes   *resolver.Indexes
	interests *rbac.Interests[ctrl.Request]
	memory    *memory
	issued    *hooks.Memory
	watches   *watches
	// orphaning contains the extensions that are deleted with --cascade=orphan.
	orphaning *kit.Orphaning
	// excess contains the ends of the grace periods of extensions that exceed their identities.
	excess *excess.Timers[types.UID]
	// ages contains, by name, the ages of permissions that extensions have left behind, told the last report about them, and
	// attempts when their removal was last tried.
	ages     *excess.Ages
	told     *keyed.Map[string, string]
	attempts *excess.Timers[string]
	// unhooked contains, by name, the extensions next to which no webhook of an earlier extension was found.
	unhooked *keyed.Map[string, types.UID]
}

// New returns a Reconciler. It returns an error if a required option is missing.
func New(o Options) (*Reconciler, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Grace == 0 {
		o.Grace = excess.DefaultGrace
	}
	return &Reconciler{
		Options: o, confirmer: &preflight.Confirmer{Ask: preflight.Reviews(o.Client)}, unserved: kinds.NewUnserved(o.Clock),
		indexes: &resolver.Indexes{}, interests: &rbac.Interests[ctrl.Request]{}, memory: &memory{}, issued: &hooks.Memory{}, orphaning: &kit.Orphaning{},
		excess: &excess.Timers[types.UID]{}, ages: &excess.Ages{}, told: &keyed.Map[string, string]{}, attempts: &excess.Timers[string]{}, unhooked: &keyed.Map[string, types.UID]{},
		watches: newWatches(o.Clients, o.Client.Scheme(), o.Client.RESTMapper(), o.Proofs),
	}, nil
}

// Reconcile installs, upgrades or maintains one ClusterExtension as far as possible. If it is being deleted and has the
// finalizer, Reconcile finalizes it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tracked := *r
	r = &tracked
	var done func()
	r.RBAC, done = r.interests.Track(req, r.RBAC)
	defer done()
	ext := &olmv1.ClusterExtension{}
	err := r.Client.Get(ctx, req.NamespacedName, ext)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get ClusterExtension: %w", err)
	}
	if err == nil && ext.DeletionTimestamp != nil && controllerutil.ContainsFinalizer(ext, names.FinalizerExtension) {
		return r.finalize(ctx, ext)
	}
	if err != nil || ext.DeletionTimestamp != nil {
		r.forget(req.Name) // the garbage collector deletes what was installed
		after, err := r.leftovers(ctx, req.Name)
		return ctrl.Result{RequeueAfter: after}, err
	}
	s := newRun(r, ext)
	defer s.finish()
	out, err := s.runPhases(ctx,
		findIdentity,
		findNamespace,
		resolveBundle,
		readBundle,
		renderObjects,
		checkRequirements,
		checkPermissions,
		skipIfSettled,
		openClients,
		tryObjects,
		applyPhases,
		prune,
	)
	out, after, err := s.interrupt(out, err)
	if after > 0 {
		return ctrl.Result{RequeueAfter: after}, nil
	}
	left, leftErr := r.leftovers(ctx, req.Name)
	s.wakeAfter(left)
	err = s.conclude(ctx, out, errors.Join(err, s.bound(ctx), leftErr))
	switch saved, saveErr := s.save(ctx); {
	case saveErr != nil:
		return ctrl.Result{}, errors.Join(err, saveErr)
	case err != nil:
		return ctrl.Result{}, err
	case !saved:
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	}
	return ctrl.Result{RequeueAfter: s.after}, nil
}

// forget drops everything that is remembered about an extension that was deleted.
func (r *Reconciler) forget(name string) {
	if is := r.memory.Delete(name); is.uid != "" {
		r.confirmer.ForgetAll(string(is.uid))
		r.confirmer.ForgetAll(runAs(is.uid))
		r.issued.Forget(is.issuedFor)
		r.excess.Stop(is.uid)
	}
	r.watches.release(name)
	r.leave(name, false)
}

// cacheLag is how long the cache is expected to take to show a change that the controller made.
const cacheLag = 250 * time.Millisecond
