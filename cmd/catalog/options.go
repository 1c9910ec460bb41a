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

// options are the values of the flags that only this program has.
type options struct {
	directories   []string
	crdAccount    program.Account
	cache         string
	mirrors       []string
	authorities   []string
	plain         []string
	private       []string
	clusterDomain string
}

func (o *options) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.directories, "catalog-directory", nil,
		"IMAGE=DIRECTORY: serve CatalogSources whose spec.image is IMAGE from a directory with a file-based catalog or bundles (repeatable)")
	flags.StringVar(&o.cache, "cache-directory", "",
		"directory that keeps the content of catalog and bundle images across restarts, up to 2 GiB; empty: in the directory for temporary files")
	flags.StringArrayVar(&o.mirrors, "registry-mirror", nil,
		"REGISTRY[/PREFIX]=REGISTRY[/PREFIX]: pull images that begin with the former from the latter first (repeatable)")
	flags.StringArrayVar(&o.authorities, "registry-ca", nil,
		"FILE: trust these certificate authorities (PEM) for registries, in addition to the system's (repeatable)")
	flags.StringArrayVar(&o.plain, "registry-plain-http", nil,
		"HOST[:PORT] of a registry that may be used without TLS and at any address (repeatable)")
	flags.StringArrayVar(&o.private, "private-registry", nil,
		"CIDR or HOST[:PORT] at a private address from which images of tenants' catalogs and bundles may be pulled (repeatable)")
	flags.StringVar(&o.clusterDomain, "cluster-domain", "",
		"DNS domain of the cluster's Services; empty: the one in /etc/resolv.conf, or else cluster.local")
	flags.Var(&o.crdAccount, "crd-account",
		"<namespace>/<name> of a ServiceAccount that writes new CustomResourceDefinitions instead of the account of the install")
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
	}
	if out.ClusterDomain == "" {
		out.ClusterDomain = clusterDomain("/etc/resolv.conf")
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
	var err error
	if out.Private, err = image.ParsePrivate(o.private); err != nil {
		return out, fmt.Errorf("--private-registry %w", err)
	}
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
			return out, fmt.Errorf("--registry-ca %s: contains no PEM certificate", file)
		}
		out.Authorities = append(out.Authorities, pem)
	}
	return out, nil
}

// clusterDomain returns DOMAIN of the entry svc.DOMAIN in the search list of a resolv.conf, in which Pods look up Services; "" if
// there is none.
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
