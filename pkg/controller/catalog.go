package controller

import (
	"context"
	"errors"
	"fmt"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/catalogsource"
	"github.com/remit-olm/remit/pkg/controller/installplan"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/controller/packagemanifest"
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
	// WorkloadUser is the numeric user of restricted registry Pods whose image has none; 0 sets none.
	WorkloadUser int64
	// CacheDirectory is where the content of images is kept across restarts; if empty, disk.OpenDefault chooses a
	// directory.
	CacheDirectory string
	// Default is the installation's default account, and CRDAccount is the account that writes
	// CustomResourceDefinitions; both may be empty.
	Default    scoped.Default
	CRDAccount types.NamespacedName
}

// Catalog registers the controllers of cmd/catalog: catalogsource, subscription, installplan and packagemanifest.
func Catalog(ctx context.Context, mgr ctrl.Manager, o CatalogOptions) error {
	o.Default.Remit = o.Namespace
	own, err := newShared(ctx, mgr, names.UserAgentCatalog, o.Namespace)
	if err != nil {
		return err
	}
	from, err := newContent(mgr, o.Images, o.CacheDirectory)
	if err != nil {
		return err
	}
	manifests, err := packageManifests(mgr, o, from.store)
	if err != nil {
		return err
	}
	reads := &tenants{mgr: mgr, accounts: own.accounts, enrollment: own.enrollment, options: o}
	sources, err := catalogsource.New(catalogsource.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Store: from.store,
		GlobalNamespace: o.GlobalCatalogNamespace, ClusterDomain: o.ClusterDomain, Directories: o.Directories, WorkloadUser: o.WorkloadUser,
		Images: from.images, Disk: from.disk, Secrets: reads.readSecret, ServerVersion: own.version,
		WatchSecret: reads.watchSecret, ConfigMaps: reads.readConfigMap, WatchConfigMap: reads.watchConfigMap, RBAC: own.rbac, Default: o.Default, Accounts: own.accounts,
		Refusals: manifests, Journal: journalOf(mgr),
	})
	if err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder(names.UserAgentCatalog)
	subscriptions, err := subscription.New(subscription.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Catalogs: from.store, RBAC: own.rbac, Proofs: own.proofs, Recorder: recorder,
		GlobalCatalogNamespace: o.GlobalCatalogNamespace, Default: o.Default, Journal: journalOf(mgr),
	})
	if err != nil {
		return err
	}
	plans, err := installplan.New(installplan.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: own.accounts, Catalogs: from.store, RBAC: own.rbac,
		Enrollment: own.enrollment, ServerVersion: own.version, Proofs: own.proofs, Home: o.Namespace, Recorder: recorder,
		GlobalCatalogNamespace: o.GlobalCatalogNamespace, Default: o.Default, CRDAccount: o.CRDAccount,
	})
	if err != nil {
		return err
	}
	for _, controller := range []interface {
		RegisterMetrics(to prometheus.Registerer) error
	}{sources, subscriptions, plans} {
		if err := controller.RegisterMetrics(ctrlmetrics.Registry); err != nil {
			return err
		}
	}
	return errors.Join(
		inSetup("catalogsource", errors.Join(sources.SetupWithManager(mgr), kit.OnChange(ctx, mgr.GetCache(), append(boundKinds(own.rbac), &operatorsv1.OperatorGroup{}),
			func(before, after client.Object) { sources.Changed(ctx, before, after) }))),
		inSetup("packagemanifest", manifests.SetupWithManager(ctx, mgr, published(from.store, catalogItself))),
		inSetup("subscription", subscriptions.SetupWithManager(mgr, published(from.store, inNamespace(o.GlobalCatalogNamespace, subscriptions.Namespaces)), changes(mgr, own.rbac, subscriptions.Concerned))),
		inSetup("installplan", plans.SetupWithManager(ctx, mgr, published(from.store, inNamespace(o.GlobalCatalogNamespace, plans.Unfinished)), changes(mgr, own.rbac, plans.Concerned))),
	)
}

// packageManifests returns the controller that sends catalogs to package-server.
func packageManifests(mgr ctrl.Manager, o CatalogOptions, store *catalog.Store) (*packagemanifest.Reconciler, error) {
	server, err := packagemanifest.NewServer(mgr.GetConfig(), mgr.GetHTTPClient(), o.Namespace)
	if err != nil {
		return nil, err
	}
	return packagemanifest.New(packagemanifest.Options{Cache: mgr.GetCache(), Catalogs: store, GlobalNamespace: o.GlobalCatalogNamespace, Server: server})
}

// catalogItself returns the request for a catalog whose content changed.
func catalogItself(_ context.Context, change catalog.Change) []reconcile.Request {
	if change.Image != "" {
		return nil // a bundle image
	}
	return []reconcile.Request{{NamespacedName: change.Catalog}}
}

// inSetup wraps an error that occurred while setting up the named controller.
func inSetup(name string, err error) error {
	if err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	return nil
}
