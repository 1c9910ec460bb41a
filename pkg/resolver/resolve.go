package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/turns"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Catalogs provides published content. catalog.Store implements it.
type Catalogs interface {
	Get(key types.NamespacedName) (*catalog.Snapshot, bool)
}

// Input contains everything that the resolution of one namespace reads.
type Input struct {
	// Namespace is the namespace of the Subscriptions.
	Namespace string
	// GlobalCatalogNamespace is the namespace whose CatalogSources are available in all namespaces.
	GlobalCatalogNamespace string
	// ExcludeGlobal excludes the global catalogs from resolution (OperatorGroup annotation
	// olm.operatorframework.io/exclude-global-namespace-resolution).
	ExcludeGlobal bool
	// Catalogs contains the catalogs of all namespaces. Only Snapshot and HasContent read from it.
	Catalogs Catalogs
	// Reading bounds the time for reading and parsing contents, for all calls with this Input; nil means no limit.
	Reading *Reading
	// Interrupt is called before each bundle is parsed, unless it is nil. Its error ends the call.
	Interrupt func() error
	// Visible names the CatalogSources of Namespace and GlobalCatalogNamespace. Only Resolve reads Visible, Indexes and Serves.
	Visible []types.NamespacedName
	Indexes *Indexes
	// Serves reports whether the cluster already serves a kind, regardless of who installed it. If Serves is nil, no
	// kind is considered served.
	Serves func(schema.GroupVersionKind) bool
	// Account limits what is installed in the namespace. Group is the name of its OperatorGroup, and Targets are the
	// namespaces that the OperatorGroup targets.
	Account scoped.Account
	Group   string
	Targets []string

	RBAC rbac.Listers
	// MaxCost bounds the estimated memory for the objects of one plan, in bytes. It defaults to MaxPlanCost.
	MaxCost int64
}

const (
	// MaxPlanCost bounds the estimated memory for the objects of the bundles of one plan together, in bytes (bundle.Bundle.Cost).
	MaxPlanCost = 64 << 20
	// OrdinaryCost is the cost up to which a plan is ordinary: any number of workers can hold the objects of such a plan. The bundles of
	// the corpus need at most 20 MiB, and all but one at most 14 MiB. The others take turns (docs/adr/0091).
	OrdinaryCost = 16 << 20
)

// IsCostly reports whether an error means that the objects of a plan need more memory than Input.MaxCost.
func IsCostly(err error) bool {
	var costly *bundle.CostError
	return errors.As(err, &costly)
}

// costly limits ResolveSteps to the objects of one costly plan at a time. They exist only while it runs. Namespaces take turns: the one
// that waits for its turn comes before others that had one since.
var costly = turns.Turns{Slots: 1, Share: 1}

// costlyWait bounds the time for which a call waits for its turn. Each turn takes at most ReadTime, in which it reads and parses its
// bundles, and ReadWait if it waits for others.
const costlyWait = 2 * ReadTime

// errCostly is the cause of a ReadError after costlyWait.
var errCostly = errors.New("other bundles that take much memory are being resolved; this will be retried")

// ErrContent means that a catalog cannot provide a bundle's content now, or provides content that differs from the
// content for which the plan was created.
var ErrContent = errors.New("bundle content")

// ReadError is an ErrContent caused by a failed read. No event announces recovery, so callers must retry.
type ReadError struct{ error }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.error }

// pin reads the content of a choice and pins it for its Subscription. The error wraps ErrContent if the catalog does
// not provide the content.
func (in Input) pin(ctx context.Context, c Choice) (Pin, *catalog.Content, error) {
	if !in.canUse(c.Catalog) {
		return Pin{}, nil, in.notVisible(c.Catalog)
	}
	content, digest, err := in.read(ctx, c.Catalog, c.Package, c.Channel, c.Bundle)
	if err != nil {
		return Pin{}, nil, err
	}
	starting := ""
	if c.Replaces == "" {
		starting = c.Subscription.Spec.StartingCSV
	}
	return Pin{
		StartingCSV:      starting,
		Subscription:     c.Subscription.Name,
		SubscriptionUID:  c.Subscription.UID,
		CatalogNamespace: c.Catalog.Namespace,
		Catalog:          c.Catalog.Name,
		Package:          c.Package,
		Channel:          c.Channel,
		Bundle:           c.Bundle,
		Digest:           digest,
		Replaces:         c.Replaces,
	}, content, nil
}

// ResolveSteps pins choices that are installed together and returns the plan, its steps, and the permissions of its
// ClusterServiceVersions that the account is missing. It reads each bundle once. Each choice must have a Subscription. The error
// wraps ErrContent if a catalog fails, and otherwise describes a problem with a bundle.
func ResolveSteps(ctx context.Context, in Input, choices []Choice) (Plan, []step.Step, []build.Excess, error) {
	plan, made := Plan{Namespace: in.Namespace}, map[Pin]*build.Steps{}
	m := memory{left: OrdinaryCost}
	defer m.release()
	for _, c := range choices {
		pin, content, err := in.pin(ctx, c)
		if err != nil {
			return plan, nil, nil, err
		}
		made[pin], err = in.steps(ctx, pin, content, &m.left)
		if IsCostly(err) && m.turn == nil {
			if err := m.take(ctx, in.Namespace); err != nil {
				return plan, nil, nil, &ReadError{contentError(c.Catalog, c.Bundle, err)}
			}
			made[pin], err = in.steps(ctx, pin, content, &m.left)
		}
		if err != nil {
			return plan, nil, nil, err
		}
		plan.Pins = append(plan.Pins, pin)
	}
	slices.SortFunc(plan.Pins, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Subscription, b.Subscription))
	})
	var steps []step.Step
	var excess []build.Excess
	for _, pin := range plan.Pins {
		steps, excess = append(steps, made[pin].Steps...), append(excess, made[pin].Excess...)
	}
	return plan, steps, excess, nil
}

// memory is what one call of ResolveSteps may take. left is the cost that its plan may still have. turn is not nil if it has the only
// place for a plan that is not ordinary.
type memory struct {
	left int64
	turn *turns.Turn
}

// take waits for the place. If it takes too long, a later attempt may succeed.
func (m *memory) take(ctx context.Context, namespace string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, costlyWait, errCostly)
	defer cancel()
	if m.turn, _, err = costly.Join(ctx, namespace); err != nil {
		return err
	}
	m.left += MaxPlanCost - OrdinaryCost
	return nil
}

func (m *memory) release() {
	if m.turn != nil {
		m.turn.Leave()
	}
}

// StepsOf computes the steps of a plan from its pins. The error wraps ErrContent if a catalog no longer has the pinned
// content.
func StepsOf(ctx context.Context, in Input, plan Plan) ([]step.Step, []build.Excess, error) {
	var steps []step.Step
	var excess []build.Excess
	left := cmp.Or(in.MaxCost, MaxPlanCost)
	for _, pin := range plan.Pins {
		content, err := in.content(ctx, pin)
		if err != nil {
			return nil, nil, err
		}
		more, err := in.steps(ctx, pin, content, &left)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, more.Steps...)
		excess = append(excess, more.Excess...)
	}
	return steps, excess, nil
}

// content reads the content that a pin commits to.
func (in Input) content(ctx context.Context, pin Pin) (*catalog.Content, error) {
	// The name of an InstallPlan does not prove that its catalog is visible: any user who can create InstallPlans
	// can compute a valid name.
	if !in.canUse(pin.CatalogKey()) {
		return nil, in.notVisible(pin.CatalogKey())
	}
	content, digest, err := in.read(ctx, pin.CatalogKey(), pin.Package, pin.Channel, pin.Bundle)
	if err != nil {
		return nil, err
	}
	if digest != pin.Digest {
		return nil, fmt.Errorf("%w: catalogsource %s now has digest %s for bundle %q, but the InstallPlan requires %s",
			ErrContent, pin.CatalogKey(), digest, pin.Bundle, pin.Digest)
	}
	return content, nil
}

func (in Input) notVisible(key types.NamespacedName) error {
	return fmt.Errorf("catalogsource %s is not visible from namespace %s", key, in.Namespace)
}

// read returns the content of a bundle, and its digest.
func (in Input) read(ctx context.Context, key types.NamespacedName, pkg, channel, name string) (content *catalog.Content, digest string, err error) {
	snapshot, ok := in.Snapshot(key)
	if !ok {
		return nil, "", fmt.Errorf("%w: catalogsource %s is not available", ErrContent, key)
	}
	err = in.Reading.within(catalog.RequestedBy(ctx, in.Namespace), func(ctx context.Context) (err error) {
		if content, err = snapshot.Reader.Content(ctx, pkg, channel, name); err == nil {
			digest = content.Digest()
		}
		return err
	})
	if err == nil {
		return content, digest, nil
	}
	wrapped := contentError(key, name, err)
	if errors.Is(err, catalog.ErrNoContent) {
		return nil, "", wrapped
	}
	return nil, "", &ReadError{wrapped}
}

// contentError returns an ErrContent about a bundle.
func contentError(key types.NamespacedName, name string, err error) error {
	return fmt.Errorf("%w: bundle %q of catalogsource %s: %w", ErrContent, name, key, err)
}

// steps computes the steps of one pin. left is the cost that the plan may still have, which is reduced by that of the bundle. The author
// of the bundle decides how long parsing it takes, so that this is a part of the time for reading: if that ends, or ctx does, the error
// is a ReadError, which says nothing about the bundle.
func (in Input) steps(ctx context.Context, pin Pin, content *catalog.Content, left *int64) (steps *build.Steps, err error) {
	if in.Interrupt != nil {
		if err := in.Interrupt(); err != nil {
			return nil, err
		}
	}
	err = in.Reading.within(catalog.RequestedBy(ctx, in.Namespace), func(ctx context.Context) (err error) {
		steps, err = in.parse(ctx, pin, content, left)
		return err
	})
	if err != nil && (errors.Is(err, errReadTime) || ctx.Err() != nil) {
		return nil, &ReadError{contentError(pin.CatalogKey(), pin.Bundle, err)}
	}
	return steps, err
}

func (in Input) parse(ctx context.Context, pin Pin, content *catalog.Content, left *int64) (*build.Steps, error) {
	b, err := bundle.ParseWithin(ctx, content, min(*left, bundle.MaxBundleCost))
	if IsCostly(err) && *left < bundle.MaxBundleCost {
		return nil, fmt.Errorf("bundle %q, with the other bundles that are installed with it: %w", pin.Bundle, err)
	}
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", pin.Bundle, err)
	}
	if b.CSV.Name != pin.Bundle {
		return nil, fmt.Errorf("bundle %q: its ClusterServiceVersion is named %q", pin.Bundle, b.CSV.Name)
	}
	roles := build.CostOfRoles(b.CSV, in.Namespace, in.Targets)
	if rest := *left - b.Cost; roles > rest { // left is unchanged, because the bundle is parsed again if there is more room
		return nil, fmt.Errorf("bundle %q, with the roles for its permissions in all target namespaces: %w", pin.Bundle, &bundle.CostError{Cost: roles, Limit: rest})
	}
	*left -= b.Cost + roles
	checker := install.NewCSVRuleChecker(in.RBAC.Roles, in.RBAC.RoleBindings, in.RBAC.ClusterRoles, in.RBAC.ClusterRoleBindings, b.CSV)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: in.Account.Namespace, Name: in.Account.Name, UID: in.Account.UID,
	}}
	return build.NewStepResourceFromBundle(b, build.Scope{
		Namespace: in.Namespace, Package: pin.Package, Group: in.Group, Targets: in.Targets, Account: account,
		Unbounded: in.Account.Default, Replaces: pin.Replaces, Properties: in.propertiesOf(pin),
	}, checker)
}

// propertiesOf returns the properties that the catalog declares for a pinned bundle, in the form that a
// ClusterServiceVersion records, or "" if the catalog is not available.
func (in Input) propertiesOf(pin Pin) string {
	snapshot, ok := in.Snapshot(pin.CatalogKey())
	if !ok || snapshot.Packages[pin.Package] == nil || snapshot.Packages[pin.Package].Bundles[pin.Bundle] == nil {
		return ""
	}
	return catalog.PropertiesText(snapshot.Packages[pin.Package].Bundles[pin.Bundle].Properties)
}
