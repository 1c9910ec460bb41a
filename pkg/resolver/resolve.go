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
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Catalogs gives published content; catalog.Store does.
type Catalogs interface {
	Get(key types.NamespacedName) (*catalog.Snapshot, bool)
}

// Input is all that resolution of one namespace looks at.
type Input struct {
	// Namespace of the Subscriptions.
	Namespace string
	// GlobalCatalogNamespace is the one whose CatalogSources every namespace may use.
	GlobalCatalogNamespace string
	// ExcludeGlobal leaves the global ones out of resolution (OperatorGroup annotation
	// olm.operatorframework.io/exclude-global-namespace-resolution).
	ExcludeGlobal bool
	Catalogs      Catalogs
	// Visible names the CatalogSources of both namespaces. Only Resolve looks at it, and at the two that follow.
	Visible []types.NamespacedName
	Indexes *Indexes
	// Serves says whether the cluster serves a kind already, whoever brought it; nil stands for no kind.
	Serves func(schema.GroupVersionKind) bool
	// Account bounds what is installed in the namespace; Group is the name of its OperatorGroup and Targets
	// are that one's.
	Account scoped.Account
	Group   string
	Targets []string

	Roles               rbacv1listers.RoleLister
	RoleBindings        rbacv1listers.RoleBindingLister
	ClusterRoles        rbacv1listers.ClusterRoleLister
	ClusterRoleBindings rbacv1listers.ClusterRoleBindingLister
}

// ErrContent says that a catalog cannot give a bundle's content now, or gives another one than the
// plan was made for.
var ErrContent = errors.New("bundle content")

// Unread is an ErrContent where the reading of it failed: nobody tells when that is over, so it has to be tried
// again.
type Unread struct{ error }

// Unwrap returns what failed.
func (e *Unread) Unwrap() error { return e.error }

// pin reads the content of a choice and pins it for the Subscription that asks for it. It fails with
// ErrContent where the catalog does not give it.
func (in Input) pin(ctx context.Context, c Choice) (Pin, error) {
	snapshot, ok := in.Catalogs.Get(c.Catalog)
	if !ok {
		return Pin{}, fmt.Errorf("%w: catalogsource %s is not available", ErrContent, c.Catalog)
	}
	content, err := read(ctx, snapshot, c.Package, c.Channel, c.Bundle)
	if err != nil {
		return Pin{}, err
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
		Digest:           content.Digest(),
		Replaces:         c.Replaces,
	}, nil
}

// ResolveSteps pins the choices that are installed together, each of which has its Subscription, and makes
// their steps. The error wraps ErrContent where a catalog fails, and else says what is wrong with a bundle.
func ResolveSteps(ctx context.Context, in Input, choices []Choice) (Plan, []step.Step, error) {
	plan := Plan{Namespace: in.Namespace}
	for _, c := range choices {
		pin, err := in.pin(ctx, c)
		if err != nil {
			return plan, nil, err
		}
		plan.Pins = append(plan.Pins, pin)
	}
	slices.SortFunc(plan.Pins, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Subscription, b.Subscription))
	})
	steps, _, err := StepsOf(ctx, in, plan)
	return plan, steps, err
}

// StepsOf makes the steps of a plan again from its pins. It fails with ErrContent where a catalog does
// not have the pinned content any more.
func StepsOf(ctx context.Context, in Input, plan Plan) ([]step.Step, []build.Excess, error) {
	var steps []step.Step
	var excess []build.Excess
	for _, pin := range plan.Pins {
		// Whoever may create InstallPlans can make one whose name commits to any catalog.
		if !in.sees(pin.CatalogKey()) {
			return nil, nil, fmt.Errorf("catalogsource %s is not visible from namespace %s", pin.CatalogKey(), in.Namespace)
		}
		snapshot, ok := in.Catalogs.Get(pin.CatalogKey())
		if !ok {
			return nil, nil, fmt.Errorf("%w: catalogsource %s is not available", ErrContent, pin.CatalogKey())
		}
		content, err := read(ctx, snapshot, pin.Package, pin.Channel, pin.Bundle)
		if err != nil {
			return nil, nil, err
		}
		if digest := content.Digest(); digest != pin.Digest {
			return nil, nil, fmt.Errorf("%w: catalogsource %s now has %s for bundle %q, and this plan was made for %s",
				ErrContent, pin.CatalogKey(), digest, pin.Bundle, pin.Digest)
		}
		more, err := in.steps(pin, content)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, more.Steps...)
		excess = append(excess, more.Excess...)
	}
	return steps, excess, nil
}

func read(ctx context.Context, snapshot *catalog.Snapshot, pkg, channel, name string) (*catalog.Content, error) {
	content, err := snapshot.Reader.Content(ctx, pkg, channel, name)
	if err == nil {
		return content, nil
	}
	said := fmt.Errorf("%w: bundle %q of catalogsource %s: %w", ErrContent, name, snapshot.Key, err)
	if errors.Is(err, catalog.ErrNoContent) {
		return nil, said
	}
	return nil, &Unread{said}
}

func (in Input) steps(pin Pin, content *catalog.Content) (*build.Steps, error) {
	b, err := bundle.ParseContent(content)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", pin.Bundle, err)
	}
	if b.CSV.Name != pin.Bundle {
		return nil, fmt.Errorf("bundle %q: its ClusterServiceVersion is named %q", pin.Bundle, b.CSV.Name)
	}
	checker := install.NewCSVRuleChecker(in.Roles, in.RoleBindings, in.ClusterRoles, in.ClusterRoleBindings, b.CSV)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: in.Account.Namespace, Name: in.Account.Name, UID: in.Account.UID,
	}}
	return build.NewStepResourceFromBundle(b, build.Scope{
		Namespace: in.Namespace, Package: pin.Package, Group: in.Group, Targets: in.Targets, Account: account,
		Unbounded: in.Account.Default, Replaces: pin.Replaces, Properties: in.propertiesOf(pin),
	}, checker)
}

// propertiesOf are those that the catalog states of a pinned bundle, as a ClusterServiceVersion notes them.
func (in Input) propertiesOf(pin Pin) string {
	snapshot, ok := in.Catalogs.Get(pin.CatalogKey())
	if !ok || snapshot.Packages[pin.Package] == nil || snapshot.Packages[pin.Package].Bundles[pin.Bundle] == nil {
		return ""
	}
	return catalog.PropertiesText(snapshot.Packages[pin.Package].Bundles[pin.Bundle].Properties)
}
