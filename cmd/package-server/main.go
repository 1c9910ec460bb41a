// Command package-server serves PackageManifests (packages.operators.coreos.com) as an aggregated API. The catalog program
// sends the catalogs to it.
package main

import (
	"context"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/lib/message"
)

func main() {
	ctx := ctrl.SetupSignalHandler()
	program.ManageMemory(ctx)
	if err := run(ctx, os.Args[1:]); err != nil {
		message.Fprintf(os.Stderr, "package-server: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil || o == nil {
		return err
	}
	return o.serve(ctx)
}
