// Package program contains the common parts of the controller programs: flags, logging, the manager, startup and
// shutdown.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/lib/logging"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/version"
)

// Program describes one of the controller programs.
type Program struct {
	// Name is the name of the executable. UserAgent identifies the program in the API server's audit log, and is also
	// the name of the program's ServiceAccount.
	Name      string
	UserAgent string
	// Extensions is true for the program that installs ClusterExtensions. Other admission policies limit this program, and it
	// has no default account.
	Extensions bool
	// Packages is true for the program that serves PackageManifests. Another admission policy limits this program.
	Packages bool
	// AddFlags adds the program's own flags; it may be nil.
	AddFlags func(*pflag.FlagSet)
	// Trim removes from an object what the program does not read from its cache; nil means controller.Trim.
	Trim func(client.Object)
	// Setup registers the program's controllers.
	Setup func(ctx context.Context, mgr ctrl.Manager, common Common) error
}

// Common holds the values of the flags that all programs have.
type Common struct {
	// Namespace is where Remit is installed, and CatalogNamespace is the namespace of the global catalogs.
	Namespace, CatalogNamespace string
	// Default is the installation's default account; it may be empty, and is not used for ClusterExtensions.
	Default scoped.Default
}

// leaseUnit is the unit in which a Lease records its duration.
const leaseUnit = time.Second

type flagValues struct {
	kubeconfig        string
	namespace         string
	catalogNamespace  string
	defaultAccount    Account
	defaultNamespaces []string
	metricsAddress    string
	healthAddress     string
	leaderElect       bool
	leaseDuration     time.Duration
	journal           string
	debug             bool
	version           bool
}

func (v *flagValues) add(flags *pflag.FlagSet) {
	flags.StringVar(&v.kubeconfig, "kubeconfig", "", "path to a kubeconfig file; if empty, $KUBECONFIG or the Pod's ServiceAccount is used")
	flags.StringVar(&v.namespace, "namespace", controller.OwnNamespace(), "namespace where Remit is installed")
	flags.StringVar(&v.catalogNamespace, "global-catalog-namespace", cmp.Or(os.Getenv("GLOBAL_CATALOG_NAMESPACE"), names.DefaultCatalogNamespace),
		"namespace whose CatalogSources are available in all namespaces; must differ from --namespace")
	flags.StringVar(&v.metricsAddress, "metrics-bind-address", "0", "address on which to serve /metrics, such as :8080; 0 disables it")
	flags.StringVar(&v.healthAddress, "health-probe-bind-address", "0", "address on which to serve /healthz and /readyz, such as :8081; 0 disables them")
	flags.BoolVar(&v.leaderElect, "leader-elect", false, "elect a leader, so that only one of several replicas is active")
	flags.DurationVar(&v.leaseDuration, "leader-elect-lease-duration", controller.DefaultLeaseDuration,
		"how long the other replicas wait, after the leader last renewed its lease, before one of them becomes the leader, in whole seconds")
	flags.StringVar(&v.journal, "journal", defaultJournal(),
		"file that records what the program works on, so that a namespace at whose objects it ends repeatedly is suspended; no other program may use it; in a Pod, the default is a file in the temporary directory")
	flags.BoolVar(&v.debug, "debug", false, "log more detail, as human-readable text instead of JSON")
	flags.BoolVar(&v.version, "version", false, "print the version and exit")
}

// defaultJournal returns a file that survives a restart of the program's container. Outside a Pod, programs can share a directory.
func defaultJournal() string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return ""
	}
	return filepath.Join(os.TempDir(), "remit-journal")
}

// openJournal opens the journal. A program that cannot write it works without it.
func (v *flagValues) openJournal(logger logr.Logger) *journal.Journal {
	if v.journal == "" {
		return nil
	}
	j, err := journal.Open(v.journal, clock.RealClock{}, v.catalogNamespace, v.namespace)
	if err != nil {
		logger.Error(err, "Cannot open the journal: no namespace will be suspended after a crash")
		return nil
	}
	return j
}

// addDefaultAccount adds the flags for the default account.
func (v *flagValues) addDefaultAccount(flags *pflag.FlagSet) {
	flags.Var(&v.defaultAccount, "default-account",
		"<namespace>/<name> of the ServiceAccount for OperatorGroups that do not name one; if empty, nothing is installed for such groups")
	flags.StringSliceVar(&v.defaultNamespaces, "default-account-namespaces", nil,
		"namespaces whose OperatorGroups can use --default-account; if empty, OperatorGroups in all namespaces can use it")
}

// Main runs the program until it receives SIGTERM or SIGINT. If the program fails, Main exits with code 1.
func Main(p Program) {
	ctx := ctrl.SetupSignalHandler()
	ManageMemory(ctx)
	if err := p.run(ctx, os.Args[1:]); err != nil {
		message.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

func (p Program) run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet(p.Name, pflag.ContinueOnError)
	v := &flagValues{}
	v.add(flags)
	if !p.Extensions {
		v.addDefaultAccount(flags)
	}
	if p.AddFlags != nil {
		p.AddFlags(flags)
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if v.version {
		message.Fprintln(os.Stdout, version.String())
		return nil
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are accepted", flags.Arg(0))
	}
	common := Common{Namespace: v.namespace, CatalogNamespace: v.catalogNamespace}
	if err := v.checkNamespaces(); err != nil {
		return err
	}
	if v.leaseDuration < leaseUnit || v.leaseDuration%leaseUnit != 0 {
		return fmt.Errorf("--leader-elect-lease-duration: %s is invalid; it must be a number of whole seconds, and at least 1s", v.leaseDuration)
	}
	var err error
	if common.Default, err = v.parseDefault(); err != nil {
		return err
	}
	return p.start(ctx, v, common)
}

// checkNamespaces validates the namespaces; an error names the invalid flag. The global catalogs cannot be in Remit's
// own namespace, because that namespace contains the tokens of Remit's programs (docs/adr/0026).
func (v *flagValues) checkNamespaces() error {
	for flag, namespace := range map[string]string{"--namespace": v.namespace, "--global-catalog-namespace": v.catalogNamespace} {
		if problems := validation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
			return fmt.Errorf("%s: %q is not a valid namespace name: %s", flag, namespace, problems[0])
		}
	}
	if v.catalogNamespace == v.namespace {
		return fmt.Errorf("--global-catalog-namespace: Remit is installed in %q; global catalogs need another namespace", v.namespace)
	}
	return nil
}

// parseDefault returns the default account; an error names the invalid flag. It rejects --default-account-namespaces
// without an account: otherwise, the only symptom would be installs that never start.
func (v *flagValues) parseDefault() (scoped.Default, error) {
	out := scoped.Default{Account: v.defaultAccount.Key()}
	for _, namespace := range v.defaultNamespaces {
		if problems := validation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
			return out, fmt.Errorf("--default-account-namespaces: %q is not a valid namespace name: %s", namespace, problems[0])
		}
		out.Namespaces = append(out.Namespaces, namespace)
	}
	if len(out.Namespaces) > 0 && out.Account.Name == "" {
		return out, errors.New("--default-account-namespaces requires --default-account")
	}
	return out, nil
}

func (p Program) start(ctx context.Context, v *flagValues, common Common) error {
	logger := logging.Setup(v.debug)
	config, err := controller.LoadConfig(v.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = version.UserAgent(p.UserAgent)
	check := func(ctx context.Context) error { return p.checkPolicies(ctx, config, common) }
	if err := check(ctx); err != nil {
		return err
	}
	work := v.openJournal(logger)
	defer func() { _ = work.Close() }()                                  // a signal, or a lost Lease, ends the program for a reason that is not its work
	mgr, err := controller.NewManager(config, controller.ManagerOptions{ //nolint:contextcheck // opening a port does not wait
		UserAgent:      p.UserAgent,
		Namespace:      v.namespace,
		MetricsAddress: v.metricsAddress,
		HealthAddress:  v.healthAddress,
		LeaderElection: v.leaderElect,
		LeaseDuration:  v.leaseDuration,
		Journal:        work,
		Trim:           p.Trim,
	})
	if err != nil {
		return err
	}
	if v.leaderElect {
		// Check the policies again when this replica becomes the leader, which can be long after it started.
		if err := mgr.Add(manager.RunnableFunc(check)); err != nil {
			return err
		}
	}
	if err := p.Setup(ctx, mgr, common); err != nil {
		return err
	}
	logger.Info("Starting", "program", p.Name, "version", version.String(), "namespace", v.namespace)
	return mgr.Start(ctx)
}
