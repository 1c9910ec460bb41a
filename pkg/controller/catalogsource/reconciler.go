package catalogsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/controller/kit/bundleimage"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	controllerName = "catalogsource"
	// workers bounds concurrent reconciles, so that slow catalogs do not delay others.
	workers = 4
)

// Options configures a Reconciler. Client, Cache, Live, ConfigMaps, Store, Images and Disk are required.
type Options struct {
	// Client writes statuses, and the objects of registries in the global catalog namespace.
	Client client.Client
	// Cache reads CatalogSources. It is the manager's GetCache, because the manager's client does not cache unstructured objects.
	Cache client.Reader
	// Live reads uncached objects. It is the manager's GetAPIReader.
	Live client.Reader
	// Store is where content is published. The Reconciler must be its only writer.
	Store *catalog.Store
	// GlobalNamespace is the global catalog namespace; it defaults to names.DefaultCatalogNamespace.
	GlobalNamespace string
	// ClusterDomain is the DNS domain of Services; it defaults to cluster.local.
	ClusterDomain string
	// Directories maps images, exactly as in spec.image, to directories with a file-based catalog or bundle directories.
	Directories map[string]string
	// Images reads images from registries.
	Images *image.Client
	// Disk stores the content of images.
	Disk *disk.Store
	// Secrets reads a pull secret in a CatalogSource's namespace as an identity that is allowed to read it; nil
	// disables pull secrets. It uses the listers for RBAC, so that relevant changes are tracked.
	Secrets func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.Secret, error)
	// WatchSecret watches such a Secret. It calls changed and returns when the Secret differs from the version ("" means
	// that the Secret does not exist). It also returns when the context is done or the Secret cannot be watched. A nil
	// function disables watches.
	WatchSecret func(ctx context.Context, key types.NamespacedName, version string, changed func())
	// ConfigMaps reads the ConfigMap of a catalog as an identity that is allowed to read it. It uses the listers for RBAC,
	// so that relevant changes are tracked.
	ConfigMaps func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.ConfigMap, error)
	// WatchConfigMap watches the metadata of one ConfigMap as an identity that is allowed to watch it. It uses the
	// listers for RBAC, and returns nil if watching is not allowed. A nil function disables watches.
	WatchConfigMap func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (watch.Interface, error)
	// RBAC contains the listers for Secrets, ConfigMaps and WatchConfigMap.
	RBAC rbac.Listers
	// Default is the installation's default account, if any. Accounts creates its client; nil means that registries run
	// only in the global catalog namespace.
	Default  scoped.Default
	Accounts *scoped.Clients
	// WorkloadUser is the numeric user of restricted registry Pods whose image has none; 0 sets none.
	WorkloadUser int64
	// ServerVersion returns the API server's version from discovery, for image templates; nil means that it is unknown.
	ServerVersion func() (string, error)
	// Refusals reports which catalogs package-server has refused; nil means none.
	Refusals Refusals
	// Journal records whose registries and images are being read; it may be nil.
	Journal *journal.Journal
	// Clock is used for times in statuses and for polls; it defaults to the real clock.
	Clock clock.WithTicker
}

// Refusals reports which catalogs package-server has refused.
type Refusals interface {
	// Refusal returns why package-server does not list the current packages of a catalog, or "".
	Refusal(catalog types.NamespacedName) string
	// WatchRefusals registers a function that is called when the Refusal of a catalog changes.
	WatchRefusals(notify func(catalog types.NamespacedName))
}

// Reconciler publishes the content of CatalogSources and writes their status.
type Reconciler struct {
	Options
	own         *status.Own
	waker       *kit.Waker
	directories *directories
	connections *connections
	configMaps  *configMaps
	follows     *configMapWatches
	images      *images
	bundles     *bundleimage.Images
	servers     *servers
	tenants     *tenantServers
	pulls       *pullSecrets
	services    *services
	snapshots   prometheus.Counter
}

// New returns a Reconciler. It fails if the options are invalid.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Cache == nil || o.Live == nil || o.ConfigMaps == nil || o.Store == nil || o.Images == nil || o.Disk == nil {
		return nil, errors.New("catalogsource: Client, Cache, Live, ConfigMaps, Store, Images and Disk are required")
	}
	for image, dir := range o.Directories {
		if image == "" || dir == "" {
			return nil, fmt.Errorf("catalogsource: directory mapping %q=%q: both the image and the directory are required", image, dir)
		}
	}
	o.GlobalNamespace = cmp.Or(o.GlobalNamespace, names.DefaultCatalogNamespace)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	waker := &kit.Waker{}
	bound := newBudget(o.GlobalNamespace)
	r := &Reconciler{
		Options:     o,
		own:         &status.Own{},
		waker:       waker,
		directories: newDirectories(o.Directories, o.Disk),
		connections: newConnections(bound, waker.Wake),
		configMaps:  &configMaps{budget: bound, disk: o.Disk},
		follows:     newConfigMapWatches(o.WatchConfigMap, o.GlobalNamespace, waker.Wake),
		images:      newImages(o.Images, o.Disk, bound, waker.Wake, o.Clock),
		servers:     newServers(o),
		snapshots:   newSnapshots(),
		services:    &services{reader: o.Live, watch: func(context.Context) error { return nil }},
	}
	r.recordTurns()
	r.pulls = newPullSecrets(&r.Options)
	r.images.secrets = r.pulls
	r.tenants = &tenantServers{Options: &r.Options, managed: r.servers.managed, notify: r.ownedChanged,
		watchServices: func(ctx context.Context) error { return r.services.watch(ctx) }}
	r.bundles = bundleimage.New(bundleimage.Options{Client: o.Images, Disk: o.Disk, Decoding: bound.decoding, Access: r.pulls, Room: r.images.spool, Turn: r.images.unpack, Touch: o.Store.TouchImage, Journal: o.Journal})
	wakeRefused := func(key types.NamespacedName) {
		waker.Wake(key)
		r.retryPulls(func(other types.NamespacedName) bool { return other == key })
	}
	bound.wake, r.images.space.wake = wakeRefused, wakeRefused
	if o.Refusals != nil {
		o.Refusals.WatchRefusals(waker.Wake)
	}
	return r, nil
}

// recordTurns makes the journal record whose registries and images are being read.
func (r *Reconciler) recordTurns() {
	for name, l := range map[string]*lanes{
		"registry": r.connections.lanes.listings, "bundle": r.connections.lanes.bundles, "image": r.images.parses, "unpack": r.images.unpacks,
	} {
		l.record(r.Journal, name)
	}
	r.images.layers.Journal, r.images.layers.Name = r.Journal, "pull"
}

// SetupWithManager registers the controller, its index and its runnables.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	parts := []manager.Runnable{r.connections, r.images, r.bundles, r.follows, r.tenants}
	if len(r.directories.all) > 0 {
		if watcher := newWatcher(r.directories, r.waker.Wake, fsnotify.NewWatcher); watcher != nil {
			parts = append(parts, watcher)
		}
	}
	for _, part := range parts {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("add %T: %w", part, err)
		}
	}
	if err := r.watchServices(mgr); err != nil {
		return err
	}
	if err := r.watchServers(mgr); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(newObject(), builder.WithPredicates(r.own.DropTexts())).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.ofGroup), builder.WithPredicates(predicate.GenerationChangedPredicate{}, kit.DropExisting())).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(r.ofServiceAccount)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{}, kit.DropExisting())).
		WatchesRawSource(source.Func(r.start)).
		WithOptions(fairqueue.Options(mgr, workers, fairqueue.RetryLimiter(lastReload))).
		Complete(r)
}

// Reconcile reads one CatalogSource, publishes its content and updates its status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u := newObject()
	err := r.Cache.Get(ctx, req.NamespacedName, u)
	if apierrors.IsNotFound(err) {
		r.forget(ctx, req.NamespacedName, r.Store.Delete)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get CatalogSource: %w", err)
	}
	if u.GetDeletionTimestamp() != nil || scoped.LeftToOLM(u) {
		r.forget(ctx, req.NamespacedName, r.Store.SetUnavailable)
		return ctrl.Result{}, nil
	}
	cs, err := decode(u)
	if err != nil {
		r.forget(ctx, req.NamespacedName, r.Store.SetUnavailable)
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	seen := r.observe(ctx, cs)
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	r.settle(req.NamespacedName, seen)
	r.publish(ctx, cs, seen)
	if r.Refusals != nil {
		seen.refusal = r.Refusals.Refusal(req.NamespacedName)
	}
	now := r.Clock.Now()
	at := metav1.NewTime(now).Rfc3339Copy()
	want := desired(cs, seen, at)
	if err := r.record(ctx, cs, want, at); err != nil {
		return ctrl.Result{}, err
	}
	isStale, err := r.writeStatus(ctx, u, cs, want)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case seen.retry != nil:
		return ctrl.Result{}, seen.retry
	case isStale:
		return ctrl.Result{RequeueAfter: status.CacheLag}, nil
	}
	again := seen.recheckAfter
	if updated := connectsAfter(want); updated != nil {
		next := updated.Add(time.Second).Sub(now)
		again = min(cmp.Or(again, next), next)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// forget releases all that belongs to a CatalogSource, and withdraws its content with the given method of the Store.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName, withdraw func(types.NamespacedName) bool) {
	r.own.Forget(key)
	r.directories.drop(key)
	r.connections.drop(key)
	r.configMaps.drop(key)
	r.follows.drop(key)
	r.images.drop(key)
	r.images.settle(key)
	r.bundles.Drop(key)
	r.servers.histories.Delete(key)
	reportWithdrawal(ctx, withdraw(key))
}

func reportWithdrawal(ctx context.Context, existed bool) {
	if existed {
		ctrl.LoggerFrom(ctx).Info("Withdrew catalog")
	}
}

// publish publishes a copy of the snapshot, because CatalogSources can share the content of a directory. Without a snapshot, it
// withdraws the content. While the first attempt to load it has neither succeeded nor failed, there is nothing to withdraw.
func (r *Reconciler) publish(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, seen observation) {
	key := client.ObjectKeyFromObject(cs)
	snap := seen.snapshot
	if snap == nil {
		isLoading := seen.problem == nil && r.Store.IsLoading(key)
		reportWithdrawal(ctx, !isLoading && r.Store.SetUnavailable(key))
		return
	}
	own := *snap
	own.Key, own.Priority = key, cs.Spec.Priority
	own.Reader = r.bundles.Reader(&own, cs.Spec.Secrets)
	r.bundles.Keep(key, snap.Digest)
	if r.Store.Put(&own) {
		r.snapshots.Inc()
		ctrl.LoggerFrom(ctx).Info("Published catalog", "digest", own.Digest, "packages", len(own.Packages))
	}
}

// writeStatus sends one patch if the status changed. isStale is true after a conflict, which means that the cached CatalogSource is
// outdated. The pending watch event triggers no reconcile if the predicate drops it.
func (r *Reconciler) writeStatus(ctx context.Context, u *unstructured.Unstructured, cs *operatorsv1alpha1.CatalogSource, want *operatorsv1alpha1.CatalogSourceStatus) (isStale bool, err error) {
	if equality.Semantic.DeepEqual(&cs.Status, want) {
		return false, nil
	}
	after, err := withStatus(u, want)
	if err != nil {
		return false, err
	}
	err = r.own.Patch(ctx, r.Client, u, after)
	if apierrors.IsConflict(err) {
		return true, nil
	}
	return false, client.IgnoreNotFound(err)
}
