package resolver

import (
	"context"
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	Catalogs               Catalogs
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

// Resolution is the answer for one Subscription.
type Resolution struct {
	Plan  Plan
	Steps []step.Step
	// Excess is what the CSV's permissions ask for beyond the account. It is no reason to refuse by
	// itself (the account may hold escalate): the preflight of the plan decides what to say.
	Excess []build.Excess
}

// ErrContent says that a catalog cannot give a bundle's content now, or gives another one than the
// plan was made for.
var ErrContent = errors.New("bundle content")

// ResolveSteps resolves one Subscription for which nothing is installed. The error is a *Problem where
// the Subscription asks for what there is not, wraps ErrContent where the catalog fails, and else says
// what is wrong with the bundle.
func ResolveSteps(ctx context.Context, in Input, sub *operatorsv1alpha1.Subscription) (*Resolution, error) {
	c, err := choose(sub, in)
	if err != nil {
		return nil, err
	}
	content, err := read(ctx, c.snapshot, c.bundle.Package, c.channel, c.bundle.Name)
	if err != nil {
		return nil, err
	}
	pin := Pin{
		Subscription:     sub.Name,
		SubscriptionUID:  sub.UID,
		CatalogNamespace: c.snapshot.Key.Namespace,
		Catalog:          c.snapshot.Key.Name,
		Package:          c.bundle.Package,
		Channel:          c.channel,
		Bundle:           c.bundle.Name,
		Digest:           content.Digest(),
	}
	steps, err := in.steps(pin, content)
	if err != nil {
		return nil, err
	}
	return &Resolution{
		Plan:   Plan{Namespace: in.Namespace, Pins: []Pin{pin}},
		Steps:  steps.Steps,
		Excess: steps.Excess,
	}, nil
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
	if err != nil {
		return nil, fmt.Errorf("%w: bundle %q of catalogsource %s: %w", ErrContent, name, snapshot.Key, err)
	}
	return content, nil
}

func (in Input) steps(pin Pin, content *catalog.Content) (*build.Steps, error) {
	b, err := bundle.Parse(content.Manifests)
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
		Unbounded: in.Account.Default,
	}, checker)
}
