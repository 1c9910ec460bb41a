package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/image"
)

// options are the flags that only this program has, as given.
type options struct {
	globalNamespace string
	directories     []string
	crdAccount      program.Account
	cache           string
	mirrors         []string
	authorities     []string
	plain           []string
}

func (o *options) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.globalNamespace, "global-catalog-namespace", os.Getenv("GLOBAL_CATALOG_NAMESPACE"),
		"namespace whose CatalogSources every namespace may use; the default is --namespace")
	flags.StringArrayVar(&o.directories, "catalog-directory", nil,
		"IMAGE=DIRECTORY: serve CatalogSources whose spec.image is IMAGE from a directory with a file-based catalog or bundles (repeatable)")
	flags.StringVar(&o.cache, "cache-directory", "",
		"keep what was read of catalogs' and bundles' images here for the next start, up to 2 GiB; empty: in the folder for temporary files")
	flags.StringArrayVar(&o.mirrors, "registry-mirror", nil,
		"REGISTRY[/PREFIX]=REGISTRY[/PREFIX]: ask the latter first for images that begin with the former (repeatable)")
	flags.StringArrayVar(&o.authorities, "registry-ca", nil,
		"FILE: trust these certificate authorities (PEM) of registries beside the system's (repeatable)")
	flags.StringArrayVar(&o.plain, "registry-plain-http", nil,
		"HOST[:PORT] of a registry that may do without TLS, and be at any address (repeatable)")
	flags.Var(&o.crdAccount, "crd-account",
		"<namespace>/<name> of a ServiceAccount that writes new CustomResourceDefinitions in place of the account")
}

// controllers reads the flags; an error names the one that is wrong.
func (o *options) controllers(common program.Common) (controller.CatalogOptions, error) {
	out := controller.CatalogOptions{
		GlobalCatalogNamespace: o.globalNamespace,
		Directories:            map[string]string{},
		Default:                common.Default,
		CRDAccount:             o.crdAccount.Key(),
		CacheDirectory:         o.cache,
	}
	if out.GlobalCatalogNamespace == "" {
		out.GlobalCatalogNamespace = common.Namespace
	}
	for _, d := range o.directories {
		named, dir, ok := strings.Cut(d, "=")
		if !ok || named == "" || dir == "" {
			return out, fmt.Errorf("--catalog-directory %q: want IMAGE=DIRECTORY", d)
		}
		out.Directories[named] = dir
	}
	var err error
	out.Images, err = o.images()
	return out, err
}

func (o *options) images() (image.Options, error) {
	out := image.Options{Plain: o.plain}
	for _, text := range o.mirrors {
		m, err := image.ParseMirror(text)
		if err != nil {
			return out, fmt.Errorf("--registry-mirror %w", err)
		}
		out.Mirrors = append(out.Mirrors, m)
	}
	for _, file := range o.authorities {
		pem, err := os.ReadFile(file)
		if err != nil {
			return out, fmt.Errorf("--registry-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return out, fmt.Errorf("--registry-ca %s: holds no PEM certificate", file)
		}
		out.Authorities = append(out.Authorities, pem)
	}
	return out, nil
}
