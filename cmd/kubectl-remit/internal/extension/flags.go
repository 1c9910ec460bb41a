package extension

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Flags holds the values of the flags that describe a ClusterExtension and its catalog.
type Flags struct {
	// File is a manifest of the ClusterExtension; "-" means standard input.
	File string
	// Package is the package of a ClusterExtension without a manifest. Package requires Namespace, and ServiceAccount and
	// WatchNamespace require Package. Without Package, Namespace must be "" or the namespace of the ClusterExtension.
	Package        string
	Namespace      string
	ServiceAccount string
	WatchNamespace string
	// Version and Channels override those of the ClusterExtension.
	Version  string
	Channels []string
	// Catalog is a directory, a file or an image; "" means the ClusterCatalogs of the cluster.
	Catalog string
	// PlainHTTP allows a registry without TLS.
	PlainHTTP bool
	// RemitNamespace is where Remit is installed.
	RemitNamespace string
	// Provider issues the certificates of webhooks and APIs.
	Provider serving.Provider
}

// AddFlags adds the flags to a command, except --namespace.
func (f *Flags) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.File, "filename", "f", "", "manifest of the ClusterExtension, which need not exist; - means standard input")
	flags.StringVar(&f.Package, "package", "", "package of a ClusterExtension that need not exist; requires --namespace")
	flags.StringVar(&f.ServiceAccount, "service-account", "", "ServiceAccount that the ClusterExtension names, with --package; by default none, so the ClusterExtension is installed as its synthetic user")
	flags.StringVar(&f.WatchNamespace, "watch-namespace", "", "namespace for the operator to watch, with --package; by default what the bundle supports")
	flags.StringVar(&f.Version, "version", "", "version or range of versions; by default that of the ClusterExtension")
	flags.StringSliceVar(&f.Channels, "channel", nil, "channels of the package; by default those of the ClusterExtension")
	flags.StringVar(&f.Catalog, "catalog", "", "catalog to use instead of the ClusterCatalogs of the cluster: a directory, a file or an image")
	flags.BoolVar(&f.PlainHTTP, "plain-http", false, "allow a registry without TLS; not required for a registry on this machine")
	flags.StringVar(&f.RemitNamespace, "remit-namespace", names.DefaultNamespace, "namespace where Remit is installed")
	flags.Var(&f.Provider, "webhook-certificates", "provider of the certificates of webhooks and APIs; must match the flag of Remit's extension program: "+
		strings.Join(serving.Providers(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("webhook-certificates", cobra.FixedCompletions(serving.Providers(), cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"package", "service-account", "watch-namespace", "version", "channel"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // fails only for an undefined flag
	}
}

// Args accepts the name of a ClusterExtension, which is optional with --filename.
func (f *Flags) Args(cmd *cobra.Command, args []string) error {
	if f.File != "" && len(args) == 0 {
		return nil
	}
	return cli.ExactArgs("NAME")(cmd, args)
}

// NeedsCluster reports whether the ClusterExtension or the content of catalogs is read from a cluster.
func (f *Flags) NeedsCluster() bool { return f.Catalog == "" || f.isInCluster() }

// isInCluster reports whether the ClusterExtension is read from the cluster.
func (f *Flags) isInCluster() bool { return f.File == "" && f.Package == "" }

// check returns an error for invalid combinations of flags.
func (f *Flags) check() error {
	switch {
	case f.File != "" && f.Package != "":
		return errors.New("--filename and --package are mutually exclusive")
	case f.Package != "" && f.Namespace == "":
		return errors.New("--namespace is required with --package: the namespace in which the bundle is installed")
	case f.Package == "" && f.ServiceAccount != "":
		return errors.New("--service-account requires --package: otherwise, the ClusterExtension determines it")
	case f.Package == "" && f.WatchNamespace != "":
		return errors.New("--watch-namespace requires --package: otherwise, the ClusterExtension determines it")
	}
	return nil
}

// checkSpec returns an error for names that the API server would not accept.
func checkSpec(ext *olmv1.ClusterExtension) error {
	if _, err := scoped.ExtensionIdentity(ext.Name); err != nil {
		return err
	}
	if problems := apivalidation.ValidateNamespaceName(ext.Spec.Namespace, false); len(problems) > 0 {
		return fmt.Errorf("namespace %q: %s", ext.Spec.Namespace, problems[0])
	}
	if account := ext.Spec.ServiceAccount.Name; account != "" {
		if problems := apivalidation.ValidateServiceAccountName(account, false); len(problems) > 0 {
			return fmt.Errorf("service account %q: %s", account, problems[0])
		}
	}
	if from := ext.Spec.Source.Catalog; from != nil {
		if problems := validation.IsDNS1123Subdomain(from.PackageName); len(problems) > 0 {
			return fmt.Errorf("package %q: %s", from.PackageName, problems[0])
		}
	}
	return nil
}
