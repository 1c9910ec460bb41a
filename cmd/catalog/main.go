// Command catalog makes catalogs reachable, resolves Subscriptions and carries out InstallPlans, each
// as the account of its namespace's OperatorGroup.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/logging"
	"github.com/remit-olm/remit/pkg/lib/version"
)

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("catalog", pflag.ContinueOnError)
	o := &options{}
	o.add(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if o.version {
		fmt.Println(version.String())
		return nil
	}
	catalogOptions, err := o.catalogOptions()
	if err != nil {
		return err
	}
	logger := logging.Setup(o.debug)
	config, err := controller.LoadConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	mgr, err := controller.NewManager(config, o.managerOptions())
	if err != nil {
		return err
	}
	if err := controller.Catalog(ctx, mgr, catalogOptions); err != nil {
		return err
	}
	logger.Info("Starting catalog", "version", version.String(), "globalCatalogNamespace", catalogOptions.GlobalCatalogNamespace)
	return mgr.Start(ctx)
}
