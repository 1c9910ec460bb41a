package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/remit-olm/remit/pkg/controller/copiedcsv"
	"github.com/remit-olm/remit/pkg/controller/csv"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/controller/operator"
	"github.com/remit-olm/remit/pkg/controller/operatorcondition"
	"github.com/remit-olm/remit/pkg/controller/operatorgroup"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// OLMOptions contains the options of OLM.
type OLMOptions struct {
	// Default is the installation's default account; the zero value means that there is none.
	Default scoped.Default
	// Namespace is the namespace that Remit runs in. CatalogNamespace is the namespace of the global catalogs.
	Namespace, CatalogNamespace string
	// ProtectedCopies lists namespaces that have copies of ClusterServiceVersions even if OLMConfig disables them.
	ProtectedCopies []string
	// Certificates configures the serving certificates; the zero value means the values that the contract defines.
	Certificates cert.Policy
	// ExcessGrace is the time between the report that an operator exceeds its account and the removal of its permissions; 0
	// means excess.DefaultGrace.
	ExcessGrace time.Duration
	// CheckRemovals returns an error unless an admission policy limits the identity remit-remover; nil means that this identity is
	// never used.
	CheckRemovals func(context.Context, client.Reader) error
	// Clock defaults to the system clock.
	Clock clock.PassiveClock
}

// OLM registers the controllers of cmd/olm: operatorgroup, csv, copiedcsv, olmconfig, operatorcondition and operator.
func OLM(ctx context.Context, mgr ctrl.Manager, o OLMOptions) error {
	own, err := newShared(ctx, mgr, names.UserAgentOLM, o.Namespace)
	if err != nil {
		return err
	}
	if !own.rbac.Readable() {
		return errors.New("permission to read RBAC is required to maintain and remove the roles and bindings of operators")
	}
	o.Default.Remit = o.Namespace
	groups, err := operatorgroup.New(operatorgroup.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: own.accounts, RBAC: own.rbac, Proofs: own.proofs, Default: o.Default, Enrollment: own.enrollment,
		Recorder: mgr.GetEventRecorder(names.UserAgentOLM), Grace: o.ExcessGrace, Clock: o.Clock, Remover: own.remover(mgr.GetAPIReader(), o.Namespace, o.CheckRemovals),
	})
	if err != nil {
		return err
	}
	copies, err := newCopies(ctx, mgr)
	if err != nil {
		return err
	}
	csvs, err := csv.New(csv.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: own.accounts, Enrollment: own.enrollment, RBAC: own.rbac, Default: o.Default,
		Recorder: mgr.GetEventRecorder(names.UserAgentOLM), ServerVersion: own.version, Proofs: own.proofs,
		Spared: []string{o.Namespace, o.CatalogNamespace}, Certificates: o.Certificates, Grace: o.ExcessGrace, Clock: o.Clock,
		Remover: own.remover(mgr.GetAPIReader(), o.Namespace, o.CheckRemovals),
		WatchSecret: func(ctx context.Context, account scoped.Account, key types.NamespacedName) (watch.Interface, error) {
			as, err := own.accounts.ForWatch(ctx, account)
			if err != nil {
				return nil, err
			}
			return watchMetadata(ctx, as, "Secret", key)
		},
		Copies: copies, IsCopy: func(obj client.Object) bool { return own.proofs.Proves(obj, names.HolderCopy) },
	})
	if err != nil {
		return err
	}
	copiers, err := copiedcsv.New(copiedcsv.Options{
		Client: mgr.GetClient(), Copies: copies, Live: mgr.GetAPIReader(), RBAC: own.rbac, Recorder: mgr.GetEventRecorder(names.UserAgentOLM),
		Proofs: own.proofs, Default: o.Default, Protected: o.ProtectedCopies,
	})
	if err != nil {
		return err
	}
	conditions, err := operatorcondition.New(operatorcondition.Options{Client: mgr.GetClient(), RBAC: own.rbac, Default: o.Default})
	if err != nil {
		return err
	}
	operators, err := newOperators(ctx, mgr, own)
	if err != nil {
		return err
	}
	if err := csvs.RegisterMetrics(ctrlmetrics.Registry); err != nil {
		return err
	}
	return errors.Join(
		inSetup("operatorgroup", groups.SetupWithManager(ctx, mgr, changes(mgr, own.rbac, groups.Concerned, authorizerLag))),
		inSetup("csv", csvs.SetupWithManager(ctx, mgr, changes(mgr, own.rbac, csvs.Concerned, authorizerLag))),
		inSetup("copiedcsv", copiers.SetupWithManager(mgr, copies, changes(mgr, own.rbac, copiers.Concerned))),
		inSetup("operatorcondition", conditions.SetupWithManager(mgr, changes(mgr, own.rbac, conditions.Concerned))),
		inSetup("operator", operators.SetupWithManager(mgr)),
	)
}

// newOperators returns the controller of Operators. It also needs an index that the csv controller adds.
func newOperators(ctx context.Context, mgr ctrl.Manager, own shared) (*operator.Reconciler, error) {
	if err := operator.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, fmt.Errorf("index Operators: %w", err)
	}
	return operator.New(operator.Options{Client: mgr.GetClient(), Proofs: own.proofs})
}

// newCopies returns the cache of copied ClusterServiceVersions.
func newCopies(ctx context.Context, mgr ctrl.Manager) (cache.Cache, error) {
	copies, err := kit.NewCopies(mgr)
	if err != nil {
		return nil, err
	}
	return copies, errors.Join(copiedcsv.Index(ctx, copies), copiedcsv.IndexSources(ctx, mgr.GetFieldIndexer()))
}

// authorizerLag is the delay after which a change wakes a second time what is compared with an account. The API server's authorizer also
// reads RBAC through informers, which can lag behind the informers of this program.
const authorizerLag = time.Second
