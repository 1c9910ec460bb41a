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
	// Namespace is Remit's own, CatalogNamespace that of the global catalogs.
	Namespace, CatalogNamespace string
	// Certificates is how serving certificates are issued; the zero value is the contract's.
	Certificates cert.Policy
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// OLM registers the controllers of cmd/olm: operatorgroup and csv.
func OLM(ctx context.Context, mgr ctrl.Manager, o OLMOptions) error {
	listers, err := RBACListers(ctx, mgr)
	if err != nil {
		return err
	}
	if !listers.Readable() {
		return fmt.Errorf("the roles and bindings of operators could not be kept and removed: %w", err)
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
		named("operatorgroup", groups.SetupWithManager(mgr, changes(mgr, listers, groups.Concerned))),
		named("csv", csvs.SetupWithManager(mgr, changes(mgr, listers, csvs.Concerned, authorizerLag))),
	)
}

// authorizerLag is how long after a change CSVs are woken once more: the API server's authorizer reads RBAC
// through informers too, and ours may be ahead of it.
const authorizerLag = time.Second

// versionAge is how long the API server's version is believed: it may be upgraded while this program
// runs, and CSVs are looked at far more often than that.
const versionAge = 10 * time.Minute

// serverVersion asks discovery, and remembers the answer for a while.
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
