// Command catalog loads catalogs, resolves Subscriptions, and executes each InstallPlan as the account
// of its namespace's OperatorGroup.
package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func main() {
	o := &options{}
	program.Main(program.Program{
		Name:      "catalog",
		UserAgent: names.UserAgentCatalog,
		AddFlags:  o.add,
		Trim:      controller.TrimForCatalog,
		Setup: func(ctx context.Context, mgr ctrl.Manager, common program.Common) error {
			controllers, err := o.controllers(common)
			if err != nil {
				return err
			}
			return controller.Catalog(ctx, mgr, controllers)
		},
	})
}
