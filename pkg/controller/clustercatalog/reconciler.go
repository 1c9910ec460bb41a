package clustercatalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/controller/kit/bundleimage"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/status"
)

const (
	controllerName = "clustercatalog"
	// workers bounds concurrent reconciles, which never wait for a registry.
	workers = 2
)

// Server serves the objects of catalogs to clients.
type Server interface {
	// Put starts or continues to serve a catalog, with the objects in lines. Delete stops serving the catalog, and Base returns its
	// URL.
	Put(catalog string, lines *disk.Lines, modified time.Time)
	Delete(catalog string)
	Base(catalog string) string
}

// Options configures a Reconciler. All fields except Keychain and Clock are required.
type Options struct {
	// Client reads ClusterCatalogs from a cache, and writes their status and label.
	Client client.Client
	// Store is where content is published, with the name of the ClusterCatalog as key.
	Store *catalog.Store
	// Server is where content is published for other programs.
	Server Server
	// Images reads the images of catalogs and bundles from registries, with the credentials of the Keychain, if any. Disk
	// stores their content.
	Images   *image.Client
	Keychain authn.Keychain
	Disk     *disk.Store
	// Clock is used for times in statuses and for polls; it defaults to the real clock.
	Clock clock.Clock
}

// Reconciler publishes the content of ClusterCatalogs and writes their status.
type Reconciler struct {
	Options
	waker    *kit.Waker
	catalogs *catalogs
	bundles  *bundleimage.Images
}

// New returns a Reconciler. It fails if a required option is missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Store == nil || o.Server == nil || o.Images == nil || o.Disk == nil {
		return nil, errors.New("clustercatalog: Client, Store, Server, Images and Disk are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	waker, decoding, credentials := &kit.Waker{}, catalog.NewDecoding(), &access{o.Keychain, o.Clock}
	return &Reconciler{Options: o, waker: waker, catalogs: &catalogs{
		client: o.Images, access: credentials, disk: o.Disk, wake: waker.Wake, clock: o.Clock, decoding: decoding,
		pulls: kit.Slots{Max: maxPulls}, parses: kit.Slots{Max: 1}, byName: map[string]*entry{},
	}, bundles: newBundles(o, decoding, credentials)}, nil
}

// newBundles returns the images of bundles, of which one at a time is unpacked.
func newBundles(o Options, decoding *catalog.Decoding, credentials *access) *bundleimage.Images {
	unpacks := kit.Slots{Max: 1}
	return bundleimage.New(bundleimage.Options{
		Client: o.Images, Disk: o.Disk, Decoding: decoding, Access: credentials, Touch: o.Store.TouchImage,
		Room: func(types.NamespacedName) (take func(bytes int64) error, release func()) {
			return func(int64) error { return nil }, func() {}
		},
		Turn: func(ctx context.Context, _ string) (turn context.Context, end func(), err error) {
			end, err = unpacks.Take(ctx, "")
			return ctx, end, err
		},
	})
}

// SetupWithManager registers the controller and its goroutines.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for _, part := range []manager.Runnable{r.catalogs, r.bundles} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("add %T: %w", part, err)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&olmv1.ClusterCatalog{}).
		WatchesRawSource(source.Func(r.waker.Start)).
		WithOptions(fairqueue.Options(mgr, workers, fairqueue.RetryLimiter(kit.LastPause))).
		Complete(r)
}

// Reconcile publishes the content of one ClusterCatalog and updates its status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	k := &olmv1.ClusterCatalog{}
	err := r.Client.Get(ctx, req.NamespacedName, k)
	if apierrors.IsNotFound(err) || err == nil && !k.DeletionTimestamp.IsZero() {
		r.withdraw(ctx, req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get ClusterCatalog: %w", err)
	}
	if err := r.label(ctx, k); err != nil {
		return ctrl.Result{}, err
	}
	var seen view
	if isUnavailable(k) {
		r.withdraw(ctx, k.Name)
	} else {
		seen = r.catalogs.ensure(k.Name, specOf(k))
	}
	want := desired(k, seen, r.Server.Base(k.Name), metav1.NewTime(r.Clock.Now()))
	if seen.good != nil {
		r.publish(ctx, k, seen.good, want.LastUnpacked.Time)
	}
	return ctrl.Result{}, r.writeStatus(ctx, k, want)
}

// specOf returns the image of a ClusterCatalog and its poll interval.
func specOf(k *olmv1.ClusterCatalog) imageSpec {
	from := k.Spec.Source.Image
	if from == nil {
		return imageSpec{} // the schema requires an image
	}
	spec := imageSpec{ref: from.Ref}
	if from.PollIntervalMinutes != nil {
		spec.interval = time.Duration(*from.PollIntervalMinutes) * time.Minute
	}
	return spec
}

// label adds the label with the ClusterCatalog's name, if it is missing or wrong.
func (r *Reconciler) label(ctx context.Context, k *olmv1.ClusterCatalog) error {
	if k.Labels[olmv1.LabelMetadataName] == k.Name {
		return nil
	}
	before := k.DeepCopy()
	metav1.SetMetaDataLabel(&k.ObjectMeta, olmv1.LabelMetadataName, k.Name)
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, k, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("label ClusterCatalog: %w", err)
	}
	return nil
}

func (r *Reconciler) publish(ctx context.Context, k *olmv1.ClusterCatalog, good *loaded, modified time.Time) {
	own := *good.Snapshot
	own.Key, own.Priority = types.NamespacedName{Name: k.Name}, int(k.Spec.Priority)
	own.Reader = r.bundles.Reader(&own, nil)
	r.bundles.Keep(own.Key, own.Digest)
	r.Server.Put(k.Name, good.Lines, modified)
	if r.Store.Put(&own) {
		ctrl.LoggerFrom(ctx).Info("Published catalog", "digest", own.Digest, "packages", len(own.Packages))
	}
}

// withdraw deletes the content of a ClusterCatalog.
func (r *Reconciler) withdraw(ctx context.Context, name string) {
	r.Server.Delete(name)
	if r.Store.Delete(types.NamespacedName{Name: name}) {
		ctrl.LoggerFrom(ctx).Info("Withdrew catalog")
	}
	r.bundles.Drop(types.NamespacedName{Name: name})
	r.catalogs.drop(name)
}

// writeStatus sends one patch if the status changed. A conflict means that the cached ClusterCatalog is outdated; the
// pending watch event triggers another reconcile.
func (r *Reconciler) writeStatus(ctx context.Context, k *olmv1.ClusterCatalog, want *olmv1.ClusterCatalogStatus) error {
	if equality.Semantic.DeepEqual(&k.Status, want) {
		return nil
	}
	after := k.DeepCopy()
	after.Status = *want
	err := status.Patch(ctx, r.Client, k, after)
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
