package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	controllerName = "catalogsource"
	// workers is how many catalogs may be looked at at once, so that a slow one holds up no other.
	workers = 4
	// firstRetry is the pause after a failure that nobody wakes us from, which doubles up to lastReload.
	firstRetry = 50 * time.Millisecond
)

// Options of a Reconciler. Client, Cache, Live, Store, Images and Disk are required.
type Options struct {
	// Client writes status, and what runs registries in the global catalog namespace.
	Client client.Client
	// Cache reads CatalogSources: the manager's GetCache, because its client does not cache
	// unstructured objects.
	Cache client.Reader
	// Live reads what is not cached, as the contents of ConfigMaps: the manager's GetAPIReader.
	Live client.Reader
	// Store is where content is published. The Reconciler must be its only writer.
	Store *catalog.Store
	// GlobalNamespace is the global catalog namespace; empty is names.DefaultCatalogNamespace.
	GlobalNamespace string
	// ClusterDomain is the DNS domain of Services; empty is cluster.local.
	ClusterDomain string
	// Directories maps images, exactly as spec.image names them, to directories that hold their
	// content: a file-based catalog, or bundle directories.
	Directories map[string]string
	// Images reads images from registries.
	Images *image.Client
	// Disk keeps what was read of images.
	Disk *disk.Store
	// Secrets reads a pull secret of a CatalogSource's namespace as whoever may be trusted to; nil reads none. What
	// of RBAC that rests on it looks up through the listers.
	Secrets func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.Secret, error)
	// WatchSecret returns when such a Secret is not of a version ("" where there is none) any more, which it tells
	// through the function, when the context ends, or when the Secret may not be watched; nil watches none.
	WatchSecret func(ctx context.Context, key types.NamespacedName, version string, changed func())
	// WatchConfigMap watches the metadata of one ConfigMap as whoever may be trusted to; it returns nil where that one may
	// not, by what it looks up through the listers. nil watches none.
	WatchConfigMap func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (watch.Interface, error)
	// RBAC is what Secrets is given.
	RBAC rbac.Listers
	// Default is the installation's default account, if any.
	Default scoped.Default
	// ServerVersion is the API server's version, as discovery tells it, for image templates; nil has none.
	ServerVersion func() (string, error)
	// Clock tells the times in a status and of polls; nil is the real one.
	Clock clock.WithTicker
}

// Reconciler publishes the content of CatalogSources and writes their status.
type Reconciler struct {
	Options
	waker       *waker
	directories *directories
	watcher     *watcher
	connections *connections
	configMaps  *configMaps
	follows     *follows
	images      *images
	bundles     *bundles
	servers     *servers
	// interests are what the reading of pull secrets rested on, for pulls that failed.
	interests *rbac.Interests[retry]
	watches   *secretWatches
	services  *services
}

// New checks the options.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Cache == nil || o.Live == nil || o.Store == nil || o.Images == nil || o.Disk == nil {
		return nil, errors.New("catalogsource: Client, Cache, Live, Store, Images and Disk are required")
	}
	for image, dir := range o.Directories {
		if image == "" || dir == "" {
			return nil, fmt.Errorf("catalogsource: directory mapping %q=%q: both sides are required", image, dir)
		}
	}
	if o.GlobalNamespace == "" {
		o.GlobalNamespace = names.DefaultCatalogNamespace
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	wake := &waker{}
	bound := newBudget(o.GlobalNamespace)
	r := &Reconciler{
		Options:     o,
		waker:       wake,
		directories: newDirectories(o.Directories),
		connections: newConnections(bound, wake.wake),
		configMaps:  &configMaps{budget: bound},
		follows:     &follows{open: o.WatchConfigMap, wake: wake.wake, interests: &rbac.Interests[types.NamespacedName]{}, rbac: o.RBAC},
		interests:   &rbac.Interests[retry]{},
		watches:     &secretWatches{watch: o.WatchSecret},
		images:      newImages(o.Images, o.Disk, bound, wake.wake, o.Clock),
		bundles:     newBundles(o.Images, o.Disk, bound.decoding, o.Store.Touch, o.Clock),
		servers:     newServers(o),
		services:    &services{reader: o.Live, watch: func(context.Context) error { return nil }},
	}
	r.images.access, r.bundles.access = r.access, r.access
	r.images.done, r.bundles.done = r.forgetAccess, r.forgetAccess
	r.images.watch, r.bundles.watch = r.watches.begin, r.watches.begin
	wakeRefused := func(key types.NamespacedName) {
		wake.wake(key)
		r.again(func(other types.NamespacedName) bool { return other == key })
	}
	bound.wake, r.images.space.wake = wakeRefused, wakeRefused
	return r, nil
}

// SetupWithManager registers the controller, its index and its runnables.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if len(r.directories.all) > 0 {
		if r.watcher = newWatcher(r.directories, r.waker.wake, fsnotify.NewWatcher); r.watcher != nil {
			if err := mgr.Add(r.watcher); err != nil {
				return fmt.Errorf("add watcher of catalog directories: %w", err)
			}
		}
	}
	if err := mgr.Add(r.connections); err != nil {
		return fmt.Errorf("add connections to registries: %w", err)
	}
	if err := mgr.Add(r.images); err != nil {
		return fmt.Errorf("add images: %w", err)
	}
	if err := mgr.Add(r.bundles); err != nil {
		return fmt.Errorf("add bundles: %w", err)
	}
	if err := mgr.Add(r.follows); err != nil {
		return fmt.Errorf("add watches of ConfigMaps: %w", err)
	}
	if err := r.watchServices(mgr); err != nil {
		return err
	}
	if err := r.watchServers(mgr); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(newObject()).
		Watches(&corev1.ServiceAccount{}, r.sameName()).
		Watches(&corev1.Namespace{}, r.inside(), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Func(r.waker.start)).
		WithOptions(fairqueue.Options(workers, workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastReload))).
		Complete(r)
}

// Reconcile finds out about one CatalogSource, publishes its content and then says so in its status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u := newObject()
	err := r.Cache.Get(ctx, req.NamespacedName, u)
	if apierrors.IsNotFound(err) || (err == nil && u.GetDeletionTimestamp() != nil) {
		r.forget(ctx, req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get CatalogSource: %w", err)
	}
	cs, err := decode(u)
	if err != nil {
		r.forget(ctx, req.NamespacedName)
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	seen := r.observe(ctx, cs)
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	r.publish(ctx, cs, seen.snapshot)
	if err := r.writeStatus(ctx, u, cs, seen); err != nil {
		return ctrl.Result{}, err
	}
	if seen.retry != nil {
		return ctrl.Result{}, seen.retry
	}
	return ctrl.Result{RequeueAfter: seen.again}, nil
}

func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) {
	r.directories.drop(key)
	r.connections.drop(key)
	r.configMaps.drop(key)
	r.follows.drop(key)
	r.images.drop(key)
	r.bundles.drop(key)
	r.servers.forget(key)
	r.withdraw(ctx, key)
}

func (r *Reconciler) withdraw(ctx context.Context, key types.NamespacedName) {
	if _, ok := r.Store.Get(key); ok {
		ctrl.LoggerFrom(ctx).Info("Withdrawing catalog")
		r.Store.Delete(key)
	}
}

// publish takes a copy, because CatalogSources may share the content of a directory.
func (r *Reconciler) publish(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, snap *catalog.Snapshot) {
	key := client.ObjectKeyFromObject(cs)
	if snap == nil {
		r.withdraw(ctx, key)
		return
	}
	own := *snap
	own.Key, own.Priority = key, cs.Spec.Priority
	own.Reader = &reader{bundles: r.bundles, inline: snap.Reader, key: key, digest: snap.Digest, secrets: cs.Spec.Secrets, packages: snap.Packages}
	r.bundles.keep(key, snap.Digest)
	if r.Store.Put(&own) {
		ctrl.LoggerFrom(ctx).Info("Published catalog", "digest", own.Digest, "packages", len(own.Packages))
	}
}

// writeStatus sends one patch, or nothing where nothing changed. A conflict means that a newer
// CatalogSource is on its way to us, which wakes us again.
func (r *Reconciler) writeStatus(ctx context.Context, u *unstructured.Unstructured, cs *operatorsv1alpha1.CatalogSource, seen observation) error {
	want := desired(cs, seen, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	if equality.Semantic.DeepEqual(&cs.Status, want) {
		return nil
	}
	after, err := withStatus(u, want)
	if err != nil {
		return err
	}
	err = status.Patch(ctx, r.Client, u, after)
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
