package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
)

// options are the flags that only this program has, as given.
type options struct {
	globalNamespace string
	directories     []string
	crdAccount      program.Account
}

func (o *options) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.globalNamespace, "global-catalog-namespace", os.Getenv("GLOBAL_CATALOG_NAMESPACE"),
		"namespace whose CatalogSources every namespace may use; the default is --namespace")
	flags.StringArrayVar(&o.directories, "catalog-directory", nil,
		"IMAGE=DIRECTORY: serve CatalogSources whose spec.image is IMAGE from a directory with a file-based catalog or bundles (repeatable)")
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
	}
	if out.GlobalCatalogNamespace == "" {
		out.GlobalCatalogNamespace = common.Namespace
	}
	for _, d := range o.directories {
		image, dir, ok := strings.Cut(d, "=")
		if !ok || image == "" || dir == "" {
			return out, fmt.Errorf("--catalog-directory %q: want IMAGE=DIRECTORY", d)
		}
		out.Directories[image] = dir
	}
	return out, nil
}
