package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// options are the flags, as given.
type options struct {
	kubeconfig        string
	namespace         string
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
	flags.StringVar(&o.defaultAccount, "default-account", "",
		"<namespace>/<name> of the ServiceAccount that bounds OperatorGroups which name none; empty: nothing is installed through such groups")
	flags.StringSliceVar(&o.defaultNamespaces, "default-account-namespaces", nil,
		"namespaces whose OperatorGroups may use --default-account; empty: all")
	flags.StringVar(&o.crdAccount, "crd-account", "",
		"<namespace>/<name>: accepted so that both programs take the same flags; this one writes no CustomResourceDefinitions")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "0", "address of /metrics; 0 switches it off")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz; 0 switches them off")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several replicas work")
	flags.BoolVar(&o.debug, "debug", false, "log for people, and more")
	flags.BoolVar(&o.version, "version", false, "print the version and end")
}

// olmOptions reads the flags; an error names the one that is wrong.
func (o *options) olmOptions() (controller.OLMOptions, error) {
	var out controller.OLMOptions
	var err error
	if out.Default, err = scoped.ParseDefault(o.defaultAccount, o.defaultNamespaces); err != nil {
		return out, fmt.Errorf("--default-account: %w", err)
	}
	if o.crdAccount != "" {
		if _, err := scoped.ParseKey(o.crdAccount); err != nil {
			return out, fmt.Errorf("--crd-account: %w", err)
		}
	}
	return out, nil
}

func (o *options) managerOptions() controller.ManagerOptions {
	return controller.ManagerOptions{
		UserAgent:      names.UserAgentOLM,
		Namespace:      o.namespace,
		MetricsAddress: o.metricsAddress,
		HealthAddress:  o.healthAddress,
		LeaderElection: o.leaderElect,
	}
}
