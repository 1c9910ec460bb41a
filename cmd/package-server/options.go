package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/version"
)

// options holds the values of the flags.
type options struct {
	kubeconfig      string
	namespace       string
	globalNamespace string
	address         string
	directory       string
	debug           bool
}

// parse returns the options, or nil if the program has nothing more to do.
func parse(args []string) (*options, error) {
	o := &options{}
	var showVersion bool
	flags := pflag.NewFlagSet("package-server", pflag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path to a kubeconfig file; if empty, $KUBECONFIG or the Pod's ServiceAccount is used")
	flags.StringVar(&o.namespace, "namespace", controller.OwnNamespace(), "namespace where Remit is installed")
	flags.StringVar(&o.globalNamespace, "global-namespace", cmp.Or(os.Getenv("GLOBAL_CATALOG_NAMESPACE"), names.DefaultCatalogNamespace),
		"namespace whose catalogs are visible in all namespaces")
	flags.StringVar(&o.address, "bind-address", ":5443", "address on which to serve the API over HTTPS, for the Service "+names.ServicePackageServer)
	flags.StringVar(&o.directory, "directory", "", "directory in which to store descriptions while the program runs; if empty, the system's temporary directory")
	flags.Duration("interval", 0, "ignored: catalogs are not polled, but sent when they change")
	flags.BoolVar(&o.debug, "debug", false, "log more detail, as human-readable text instead of JSON")
	flags.BoolVar(&showVersion, "version", false, "print the version and exit")
	if err := flags.MarkHidden("interval"); err != nil {
		return nil, err
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, nil
		}
		return nil, err
	}
	if showVersion {
		message.Fprintln(os.Stdout, version.String())
		return nil, nil
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: only flags are accepted", flags.Arg(0))
	}
	for flag, namespace := range map[string]string{"--namespace": o.namespace, "--global-namespace": o.globalNamespace} {
		if problems := validation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
			return nil, fmt.Errorf("%s: %q is not a valid namespace name: %s", flag, namespace, problems[0])
		}
	}
	return o, nil
}

// startTimeout bounds the requests before the server starts.
const startTimeout = time.Minute
