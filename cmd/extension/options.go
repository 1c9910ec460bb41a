package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// options holds the values of the flags that only this program has.
type options struct {
	registries   program.Registries
	credentials  []string
	cache        string
	content      string
	certificates serving.Provider
	grace        time.Duration
}

func (o *options) add(flags *pflag.FlagSet) {
	o.registries.Add(flags)
	flags.StringArrayVar(&o.credentials, "registry-credentials", nil,
		"FILE: pull images with the credentials in this Docker configuration, which is read for each pull and may be missing (repeatable)")
	flags.StringVar(&o.cache, "cache-directory", "",
		"directory in which to cache up to 2 GiB of catalog and bundle images; if empty, a directory below the system's temporary directory")
	flags.StringVar(&o.content, "catalog-content-bind-address", ":8443",
		"address on which to serve the content of ClusterCatalogs over HTTPS, for the Service "+names.ServiceCatalogContent)
	flags.DurationVar(&o.grace, "excess-grace-period", excess.DefaultGrace,
		"time between the report that an installed version has permissions that its identity no longer has, and their removal")
	flags.Var(&o.certificates, "webhook-certificates",
		"provider of the certificates for operators' webhooks and APIs, unless a bundle or ClusterExtension selects one: "+strings.Join(serving.Providers(), ", "))
}

// controllers converts the flags to options; an error names the invalid flag.
func (o *options) controllers(common program.Common) (controller.ExtensionOptions, error) {
	if o.grace <= 0 {
		return controller.ExtensionOptions{}, errors.New("--excess-grace-period must be positive")
	}
	images, err := o.registries.Options()
	if err != nil {
		return controller.ExtensionOptions{}, err
	}
	return controller.ExtensionOptions{
		Namespace: common.Namespace, CatalogNamespace: common.CatalogNamespace, Images: images, CacheDirectory: o.cache, ContentAddress: o.content,
		Keychain: image.Files(o.credentials), Provider: o.certificates, ExcessGrace: o.grace, CheckRemovals: common.CheckRemovals,
	}, nil
}
