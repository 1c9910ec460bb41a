package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// options are the flags, as given.
type options struct {
	kubeconfig        string
	namespace         string
	globalNamespace   string
	directories       []string
	defaultAccount    string
	defaultNamespaces []string
	crdAccount        string
	metricsAddress    string
	healthAddress     string
	leaderElect       bool
	debug             bool
	version           bool
}

func (o *options) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig; the default is $KUBECONFIG, then the Pod's own ServiceAccount")
	flags.StringVar(&o.namespace, "namespace", controller.OwnNamespace(), "namespace of Remit itself")
	flags.StringVar(&o.globalNamespace, "global-catalog-namespace", os.Getenv("GLOBAL_CATALOG_NAMESPACE"),
		"namespace whose CatalogSources every namespace may use; the default is --namespace")
	flags.StringArrayVar(&o.directories, "catalog-directory", nil,
		"IMAGE=DIRECTORY: serve CatalogSources whose spec.image is IMAGE from a directory with a file-based catalog or bundles (repeatable)")
	flags.StringVar(&o.defaultAccount, "default-account", "",
		"<namespace>/<name> of the ServiceAccount that bounds OperatorGroups which name none; empty: nothing is installed through such groups")
	flags.StringSliceVar(&o.defaultNamespaces, "default-account-namespaces", nil,
		"namespaces whose OperatorGroups may use --default-account; empty: all")
	flags.StringVar(&o.crdAccount, "crd-account", "",
		"<namespace>/<name> of a ServiceAccount that writes new CustomResourceDefinitions in place of the account")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "0", "address of /metrics; 0 switches it off")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz; 0 switches them off")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several replicas work")
	flags.BoolVar(&o.debug, "debug", false, "log for people, and more")
	flags.BoolVar(&o.version, "version", false, "print the version and end")
}

// catalogOptions reads the flags; an error names the one that is wrong.
func (o *options) catalogOptions() (controller.CatalogOptions, error) {
	out := controller.CatalogOptions{GlobalCatalogNamespace: o.globalNamespace, Directories: map[string]string{}}
	if out.GlobalCatalogNamespace == "" {
		out.GlobalCatalogNamespace = o.namespace
	}
	for _, d := range o.directories {
		image, dir, ok := strings.Cut(d, "=")
		if !ok || image == "" || dir == "" {
			return out, fmt.Errorf("--catalog-directory %q: want IMAGE=DIRECTORY", d)
		}
		out.Directories[image] = dir
	}
	var err error
	if out.Default, err = scoped.ParseDefault(o.defaultAccount, o.defaultNamespaces); err != nil {
		return out, fmt.Errorf("--default-account: %w", err)
	}
	out.CRDAccount, err = parseOptionalKey(o.crdAccount)
	if err != nil {
		return out, fmt.Errorf("--crd-account: %w", err)
	}
	return out, nil
}

func parseOptionalKey(s string) (types.NamespacedName, error) {
	if s == "" {
		return types.NamespacedName{}, nil
	}
	return scoped.ParseKey(s)
}

func (o *options) managerOptions() controller.ManagerOptions {
	return controller.ManagerOptions{
		UserAgent:      names.UserAgentCatalog,
		Namespace:      o.namespace,
		MetricsAddress: o.metricsAddress,
		HealthAddress:  o.healthAddress,
		LeaderElection: o.leaderElect,
	}
}
