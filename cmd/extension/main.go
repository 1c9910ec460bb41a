// Command extension serves ClusterCatalogs and installs each ClusterExtension as its ServiceAccount or synthetic user.
package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func main() {
	o := &options{}
	program.Main(program.Program{
		Name:       "extension",
		UserAgent:  names.UserAgentExtension,
		Extensions: true,
		AddFlags:   o.add,
		Setup: func(ctx context.Context, mgr ctrl.Manager, common program.Common) error {
			controllers, err := o.controllers(common)
			if err != nil {
				return err
			}
			if err := image.Files(o.credentials).Check(); err != nil {
				mgr.GetLogger().Info("Credentials for registries cannot be read; images are pulled without them", "problem", err.Error())
			}
			return controller.Extension(ctx, mgr, controllers)
		},
	})
}
