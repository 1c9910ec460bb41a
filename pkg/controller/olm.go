package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/remit-olm/remit/pkg/controller/csv"
	"github.com/remit-olm/remit/pkg/controller/operatorgroup"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// OLMOptions configure the controllers of cmd/olm.
type OLMOptions struct {
	// Default is the installation's default account; it may be empty.
	Default scoped.Default
	// Namespace is where Remit is installed, and CatalogNamespace that of the global catalogs.
	Namespace, CatalogNamespace string
	// Certificates configures the serving certificates; the zero value follows the contract.
	Certificates cert.Policy
	// Clock defaults to the system clock.
	Clock clock.PassiveClock
}

// OLM registers the controllers of cmd/olm: operatorgroup and csv.
func OLM(ctx context.Context, mgr ctrl.Manager, o OLMOptions) error {
	listers, err := RBACListers(ctx, mgr)
	if err != nil {
		return err
	}
	if !listers.Readable() {
		return fmt.Errorf("permission to read RBAC is required, to maintain and remove the roles and bindings of operators: %w", err)
	}
	accounts, err := accountClients(ctx, mgr, names.UserAgentOLM)
	if err != nil {
		return err
	}
	version, err := serverVersion(mgr)
	if err != nil {
		return err
	}
	enrollment, err := NewEnrollment(ctx, mgr.GetClient())
	if err != nil {
		return err
	}
	groups, err := operatorgroup.New(operatorgroup.Options{Client: mgr.GetClient(), RBAC: listers, Default: o.Default, Enrollment: enrollment})
	if err != nil {
		return err
	}
	keys, err := proofs(ctx, mgr, o.Namespace, enrollment.ahead)
	if err != nil {
		return err
	}
	csvs, err := csv.New(csv.Options{
		Proofs: keys,
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: accounts, Enrollment: enrollment, RBAC: listers, Default: o.Default,
		Recorder: mgr.GetEventRecorder(names.UserAgentOLM), ServerVersion: version,
		Spared: []string{o.Namespace, o.CatalogNamespace}, Certificates: o.Certificates, Clock: o.Clock,
	})
	if err != nil {
		return err
	}
	if err := csvs.RegisterMetrics(ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return errors.Join(
		inSetup("operatorgroup", groups.SetupWithManager(mgr, changes(mgr, listers, groups.Concerned))),
		inSetup("csv", csvs.SetupWithManager(ctx, mgr, changes(mgr, listers, csvs.Concerned, authorizerLag))),
	)
}

// authorizerLag is the delay after which a change wakes CSVs a second time: the API server's authorizer also reads RBAC
// through informers, which can be behind this program's.
const authorizerLag = time.Second

// versionAge is how long the API server's version is cached. The server can be upgraded while this program runs, but CSVs are
// reconciled far more often.
const versionAge = 10 * time.Minute

// serverVersion returns a function that reads the version through discovery and caches it for versionAge.
func serverVersion(mgr ctrl.Manager) (func() (string, error), error) {
	disco, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	var mu sync.Mutex
	var known string
	var asked time.Time
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if known != "" && time.Since(asked) < versionAge {
			return known, nil
		}
		info, err := disco.ServerVersion()
		if err != nil {
			return "", fmt.Errorf("server version: %w", err)
		}
		known, asked = info.GitVersion, time.Now()
		return known, nil
	}, nil
}
