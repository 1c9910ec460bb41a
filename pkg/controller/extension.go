package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/remit-olm/remit/pkg/catalog/web"
	"github.com/remit-olm/remit/pkg/controller/clustercatalog"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// ExtensionOptions configures the controllers of cmd/extension.
type ExtensionOptions struct {
	// Namespace is the namespace in which Remit is installed. CatalogNamespace is the namespace of the global catalogs.
	Namespace, CatalogNamespace string
	// Images configures how catalog and bundle images are read from registries.
	Images image.Options
	// Keychain finds the credentials for registries; nil means none.
	Keychain authn.Keychain
	// CacheDirectory is where the content of images is kept across restarts; if empty, disk.OpenDefault chooses a
	// directory.
	CacheDirectory string
	// ContentAddress is the host:port on which the content of ClusterCatalogs is served.
	ContentAddress string
	// Provider issues the serving certificates of operators.
	Provider serving.Provider
	// Certificates configures the serving certificates that Remit issues; the zero value means the values that the contract
	// defines.
	Certificates cert.Policy
	// ExcessGrace is the time between the report that an extension exceeds its identity and the removal of its permissions; 0
	// means excess.DefaultGrace.
	ExcessGrace time.Duration
	// CheckRemovals returns an error unless an admission policy limits the identity remit-remover; nil means that this identity is
	// never used.
	CheckRemovals func(context.Context, client.Reader) error
}

// Extension registers the controllers of cmd/extension: clustercatalog and clusterextension.
func Extension(ctx context.Context, mgr ctrl.Manager, o ExtensionOptions) error {
	own, err := newShared(ctx, mgr, names.UserAgentExtension, o.Namespace)
	if err != nil {
		return err
	}
	from, err := newContent(mgr, o.Images, o.CacheDirectory)
	if err != nil {
		return err
	}
	extensions, err := clusterextension.New(clusterextension.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clients: own.accounts, ControllerIdentity: own.enrollment.own, Catalogs: from.store, RBAC: own.rbac,
		Proofs: own.proofs, Recorder: mgr.GetEventRecorder(names.UserAgentExtension), ServerVersion: own.version,
		Namespace: o.Namespace, Spared: []string{o.Namespace, o.CatalogNamespace}, Provider: o.Provider, Certificates: o.Certificates, Grace: o.ExcessGrace,
		Remover: own.remover(mgr.GetAPIReader(), o.Namespace, o.CheckRemovals),
	})
	if err != nil {
		return err
	}
	return errors.Join(
		inSetup("clustercatalog", clusterCatalogs(mgr, o, from)),
		inSetup("clusterextension", extensions.SetupWithManager(mgr, published(from.store, extensions.Using), changes(mgr, own.rbac, extensions.Concerned, authorizerLag))),
	)
}

// clusterCatalogs registers the clustercatalog controller and the server of its content. Only the leader serves.
func clusterCatalogs(mgr ctrl.Manager, o ExtensionOptions, from content) error {
	host := names.ServiceCatalogContent + "." + o.Namespace + ".svc"
	server := web.New("https://" + host)
	catalogs, err := clustercatalog.New(clustercatalog.Options{
		Client: mgr.GetClient(), Store: from.store, Server: server, Images: from.images, Keychain: o.Keychain, Disk: from.disk,
	})
	if err != nil {
		return err
	}
	certificates := &web.Certificates{Hosts: []string{host}, Publish: clustercatalog.PublishCA(mgr.GetClient(), o.Namespace)}
	listener := &web.Listener{Address: o.ContentAddress, Handler: server, Certificate: certificates.Get}
	for _, r := range []manager.Runnable{certificates, listener} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("add %T: %w", r, err)
		}
	}
	return catalogs.SetupWithManager(mgr)
}
