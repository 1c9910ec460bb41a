package controller

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/csv"
	"github.com/remit-olm/remit/pkg/controller/operatorgroup"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// OLMOptions configure the controllers of cmd/olm.
type OLMOptions struct {
	// Default is the installation's default account; it may be empty.
	Default scoped.Default
}

// OLM registers the controllers of cmd/olm: operatorgroup and csv.
func OLM(ctx context.Context, mgr ctrl.Manager, o OLMOptions) error {
	listers, err := RBACListers(ctx, mgr)
	if err != nil {
		return err
	}
	accounts, err := accountClients(mgr, names.UserAgentOLM)
	if err != nil {
		return err
	}
	version, err := serverVersion(mgr)
	if err != nil {
		return err
	}
	// The manager's own client reads through a cache that has not started yet; this one asks directly.
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	enrolment, err := operatorgroup.NewEnrolment(ctx, direct)
	if err != nil {
		return err
	}
	groups, err := operatorgroup.New(operatorgroup.Options{Client: mgr.GetClient(), Default: o.Default, Enrolment: enrolment})
	if err != nil {
		return err
	}
	csvs, err := csv.New(csv.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: accounts, RBAC: listers, Default: o.Default,
		Recorder: mgr.GetEventRecorder(names.UserAgentOLM), ServerVersion: version,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		named("operatorgroup", groups.SetupWithManager(mgr)),
		named("csv", csvs.SetupWithManager(mgr)),
	)
}

// serverVersion asks each time: an API server may be upgraded while this program runs.
func serverVersion(mgr ctrl.Manager) (func() (string, error), error) {
	disco, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	return func() (string, error) {
		info, err := disco.ServerVersion()
		if err != nil {
			return "", fmt.Errorf("server version: %w", err)
		}
		return info.GitVersion, nil
	}, nil
}
