package controller

import (
	"context"
	"errors"
	"fmt"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/controller/catalogsource"
	"github.com/remit-olm/remit/pkg/controller/installplan"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/controller/subscription"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// CatalogOptions configures the controllers of cmd/catalog.
type CatalogOptions struct {
	// Namespace is the namespace in which Remit is installed.
	Namespace string
	// GlobalCatalogNamespace is the namespace whose CatalogSources are available in all namespaces.
	GlobalCatalogNamespace string
	// Directories maps the images of CatalogSources to directories that contain their content.
	Directories map[string]string
	// Images configures how catalog and bundle images are read from registries.
	Images image.Options
	// ClusterDomain is the DNS domain of Services; empty means cluster.local.
	ClusterDomain string
	// CacheDirectory is where the content of images is kept across restarts; if empty, disk.OpenDefault chooses a
	// directory.
	CacheDirectory string
	// Default is the installation's default account, and CRDAccount is the account that writes
	// CustomResourceDefinitions; both may be empty.
	Default    scoped.Default
	CRDAccount types.NamespacedName
}

// Catalog registers the controllers of cmd/catalog: catalogsource, subscription and installplan.
func Catalog(ctx context.Context, mgr ctrl.Manager, o CatalogOptions) error {
	own, err := newShared(ctx, mgr, names.UserAgentCatalog, o.Namespace)
	if err != nil {
		return err
	}
	images, err := image.New(o.Images)
	if err != nil {
		return err
	}
	cache, err := openCache(o.CacheDirectory)
	if err != nil {
		return fmt.Errorf("open cache directory: %w", err)
	}
	if err := mgr.Add(closeAtExit(cache)); err != nil {
		return err
	}
	store, reads := &catalog.Store{}, &tenants{mgr: mgr, accounts: own.accounts, enrollment: own.enrollment, options: o}
	sources, err := catalogsource.New(catalogsource.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Store: store,
		GlobalNamespace: o.GlobalCatalogNamespace, ClusterDomain: o.ClusterDomain, Directories: o.Directories,
		Images: images, Disk: cache, Secrets: reads.readSecret, ServerVersion: own.version,
		WatchSecret: reads.watchSecret, WatchConfigMap: reads.watchConfigMap, RBAC: own.rbac, Default: o.Default,
	})
	if err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder(names.UserAgentCatalog)
	subscriptions, err := subscription.New(subscription.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Catalogs: store, RBAC: own.rbac, Proofs: own.proofs, Recorder: recorder,
		GlobalCatalogNamespace: o.GlobalCatalogNamespace, Default: o.Default,
	})
	if err != nil {
		return err
	}
	plans, err := installplan.New(installplan.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: own.accounts, Catalogs: store, RBAC: own.rbac,
		Enrollment: own.enrollment, ServerVersion: own.version, Proofs: own.proofs, Home: o.Namespace, Recorder: recorder,
		GlobalCatalogNamespace: o.GlobalCatalogNamespace, Default: o.Default, CRDAccount: o.CRDAccount,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		inSetup("catalogsource", errors.Join(sources.SetupWithManager(mgr), kit.OnChange(ctx, mgr.GetCache(), append(boundKinds(own.rbac), &operatorsv1.OperatorGroup{}),
			func(before, after client.Object) { sources.Changed(ctx, before, after) }))),
		inSetup("subscription", subscriptions.SetupWithManager(mgr, published(store, inNamespace(o.GlobalCatalogNamespace, subscriptions.Namespaces)), changes(mgr, own.rbac, subscriptions.Concerned))),
		inSetup("installplan", plans.SetupWithManager(mgr, published(store, inNamespace(o.GlobalCatalogNamespace, plans.Unfinished)), changes(mgr, own.rbac, plans.Concerned))),
	)
}

func openCache(dir string) (*disk.Store, error) {
	if dir == "" {
		return disk.OpenDefault()
	}
	return disk.Open(dir, 0)
}

// closeAtExit closes the cache directory when the program ends.
func closeAtExit(cache *disk.Store) manager.RunnableFunc {
	return func(ctx context.Context) error {
		<-ctx.Done()
		return cache.Close()
	}
}

// published returns a source that enqueues the requests that a change of a catalog concerns.
func published(store *catalog.Store, concerned func(context.Context, catalog.Change) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		store.Watch(func(change catalog.Change) {
			for _, req := range concerned(ctx, change) {
				queue.Add(req)
			}
		})
		return nil
	})
}

// inNamespace returns a function that lists the requests for the namespace of a catalog, or for all namespaces if the
// catalog is global.
func inNamespace(global string, concerned func(ctx context.Context, namespace string) []reconcile.Request) func(context.Context, catalog.Change) []reconcile.Request {
	return func(ctx context.Context, change catalog.Change) []reconcile.Request {
		namespace := change.Catalog.Namespace
		if namespace == global {
			namespace = metav1.NamespaceAll
		}
		return concerned(ctx, namespace)
	}
}

// inSetup wraps an error that occurred while setting up the named controller.
func inSetup(name string, err error) error {
	if err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	return nil
}
