package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/image"
)

// defaultWorkloadUser is the user that OLM v0 sets (--set-workload-user-id).
const defaultWorkloadUser = 1001

// options holds the values of the flags that only this program has.
type options struct {
	directories   []string
	crdAccount    program.Account
	cache         string
	registries    program.Registries
	private       []string
	clusterDomain string
	workloadUser  int64
}

func (o *options) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.directories, "catalog-directory", nil,
		"IMAGE=DIRECTORY: serve CatalogSources whose spec.image is IMAGE from a directory with a file-based catalog or bundles (repeatable)")
	flags.StringVar(&o.cache, "cache-directory", "",
		"directory in which to cache up to 2 GiB of catalog and bundle images; if empty, a directory below the system's temporary directory")
	o.registries.Add(flags)
	flags.StringArrayVar(&o.private, "private-registry", nil,
		"CIDR or HOST[:PORT] at a private address from which images of tenants' catalogs and bundles may be pulled (repeatable)")
	flags.StringVar(&o.clusterDomain, "cluster-domain", "",
		"DNS domain of the cluster's Services; if empty, the domain in /etc/resolv.conf, or cluster.local if there is none")
	flags.Int64Var(&o.workloadUser, "workload-user-id", defaultWorkloadUser,
		"numeric user as which a catalog registry runs in restricted mode if its image has no numeric user other than root; 0 sets none, for clusters that assign users")
	flags.Var(&o.crdAccount, "crd-account",
		"<namespace>/<name> of the ServiceAccount that creates CustomResourceDefinitions; if empty, the account of the install creates them")
}

// controllers converts the flags to options; an error names the invalid flag.
func (o *options) controllers(common program.Common) (controller.CatalogOptions, error) {
	out := controller.CatalogOptions{
		Namespace:              common.Namespace,
		GlobalCatalogNamespace: common.CatalogNamespace,
		Directories:            map[string]string{},
		Default:                common.Default,
		CRDAccount:             o.crdAccount.Key(),
		CacheDirectory:         o.cache,
		ClusterDomain:          o.clusterDomain,
		WorkloadUser:           o.workloadUser,
	}
	if out.WorkloadUser < 0 {
		return out, fmt.Errorf("--workload-user-id %d: must not be negative", out.WorkloadUser)
	}
	if out.ClusterDomain == "" {
		out.ClusterDomain = clusterDomain("/etc/resolv.conf")
	}
	for _, d := range o.directories {
		named, dir, ok := strings.Cut(d, "=")
		if !ok || named == "" || dir == "" {
			return out, fmt.Errorf("--catalog-directory %q: must have the form IMAGE=DIRECTORY", d)
		}
		out.Directories[named] = dir
	}
	var err error
	out.Images, err = o.images()
	return out, err
}

func (o *options) images() (image.Options, error) {
	out, err := o.registries.Options()
	if err != nil {
		return out, err
	}
	if out.Private, err = image.ParsePrivate(o.private); err != nil {
		return out, fmt.Errorf("--private-registry %w", err)
	}
	return out, nil
}

// clusterDomain returns the cluster's DNS domain according to the resolv.conf of a Pod, whose search list contains
// svc.DOMAIN. It returns "" if there is no such entry.
func clusterDomain(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "search" {
			continue
		}
		for _, entry := range words[1:] {
			if domain, ok := strings.CutPrefix(strings.TrimSuffix(entry, "."), "svc."); ok {
				return domain
			}
		}
	}
	return ""
}
