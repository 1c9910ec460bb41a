// Command olm keeps OperatorGroups and drives ClusterServiceVersions to Succeeded, each as the account
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
	program.Main(program.Program{
		Name:      "olm",
		UserAgent: names.UserAgentOLM,
		Setup: func(ctx context.Context, mgr ctrl.Manager, common program.Common) error {
			return controller.OLM(ctx, mgr, controller.OLMOptions{Default: common.Default})
		},
	})
}
