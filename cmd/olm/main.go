// Command olm maintains OperatorGroups and installs each ClusterServiceVersion as the account of
// its namespace's OperatorGroup.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func main() {
	var life, grace time.Duration
	var protected []string
	program.Main(program.Program{
		Name:      "olm",
		UserAgent: names.UserAgentOLM,
		Trim:      controller.TrimForOLM,
		AddFlags: func(flags *pflag.FlagSet) {
			flags.StringSliceVar(&protected, "protected-copied-csv-namespaces", nil,
				"namespaces that have copied ClusterServiceVersions even if OLMConfig disables copied ClusterServiceVersions")
			flags.DurationVar(&life, "serving-certificate-life", cert.DefaultLife,
				"validity period of the serving certificates of operators' webhooks and APIs; a certificate is rotated after two thirds of its validity period")
			flags.DurationVar(&grace, "excess-grace-period", excess.DefaultGrace,
				"time between the report that an installed operator has permissions that its account no longer has, and their removal")
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, common program.Common) error {
			if life <= 0 {
				return errors.New("--serving-certificate-life must be positive")
			}
			if grace <= 0 {
				return errors.New("--excess-grace-period must be positive")
			}
			return controller.OLM(ctx, mgr, controller.OLMOptions{
				Default: common.Default, Namespace: common.Namespace, CatalogNamespace: common.CatalogNamespace, Certificates: cert.Policy{Life: life},
				ProtectedCopies: protected, ExcessGrace: grace, CheckRemovals: common.CheckRemovals,
			})
		},
	})
}
