// Command olm keeps OperatorGroups and drives ClusterServiceVersions to Succeeded, each as the account
// of its namespace's OperatorGroup.
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
		fmt.Fprintln(os.Stderr, "olm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("olm", pflag.ContinueOnError)
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
	olmOptions, err := o.olmOptions()
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
	if err := controller.OLM(ctx, mgr, olmOptions); err != nil {
		return err
	}
	logger.Info("Starting olm", "version", version.String(), "namespace", o.namespace)
	return mgr.Start(ctx)
}
