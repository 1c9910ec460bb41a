// Command extension serves ClusterCatalogs and installs ClusterExtensions, each as its ServiceAccount or synthetic user.
package main

import (
	"context"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func main() {
	var registries program.Registries
	var cache, content string
	program.Main(program.Program{
		Name:       "extension",
		UserAgent:  names.UserAgentExtension,
		Extensions: true,
		AddFlags: func(flags *pflag.FlagSet) {
			registries.Add(flags)
			flags.StringVar(&cache, "cache-directory", "",
				"directory in which to cache up to 2 GiB of catalog and bundle images; if empty, a directory below the system's temporary directory")
			flags.StringVar(&content, "catalog-content-bind-address", ":8443",
				"address on which to serve the content of ClusterCatalogs over HTTPS, for the Service "+names.ServiceCatalogContent)
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, common program.Common) error {
			images, err := registries.Options()
			if err != nil {
				return err
			}
			return controller.Extension(ctx, mgr, controller.ExtensionOptions{
				Namespace: common.Namespace, CatalogNamespace: common.CatalogNamespace, Images: images, CacheDirectory: cache, ContentAddress: content,
			})
		},
	})
}
