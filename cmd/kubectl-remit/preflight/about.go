package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// about is one question: what of these steps may this account not do?
type about struct {
	what      string
	account   types.NamespacedName
	namespace string
	targets   []string
	steps     []step.Step
	rights    *grants.Rights
}

// about finds what an argument names.
func (o *Options) about(ctx context.Context, arg string) (*about, error) {
	kind, name, isObject := strings.Cut(arg, "/")
	if isObject {
		switch strings.ToLower(kind) {
		case "subscription", "subscriptions", "sub", "subs":
			return o.aboutObject(ctx, &operatorsv1alpha1.Subscription{}, name)
		case "installplan", "installplans", "ip":
			return o.aboutObject(ctx, &operatorsv1alpha1.InstallPlan{}, name)
		}
	}
	return o.aboutBundle(ctx, arg)
}

func (o *Options) aboutBundle(ctx context.Context, arg string) (*about, error) {
	b, err := o.Load(ctx, arg)
	if err != nil {
		return nil, err
	}
	a := &about{what: "ClusterServiceVersion " + b.CSV.Name, namespace: o.Namespace}
	var c client.Client
	if o.RBACDir == "" {
		if c, err = o.Cluster.Client(o.ErrOut); err != nil {
			return nil, err
		}
	}
	if err := o.findAccount(ctx, c, a); err != nil {
		return nil, err
	}
	scope := build.Scope{Namespace: a.namespace, Package: b.Package, Targets: a.targets}
	if len(a.targets) == 0 || o.Mode != "" || len(o.Targets) > 0 {
		if scope, err = o.Scope(b, a.namespace); err != nil {
			return nil, err
		}
	}
	a.targets = scope.Targets
	steps, err := build.NewStepResourceFromBundle(b.Bundle, scope, unasked{})
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", arg, err)
	}
	a.steps = steps.Steps
	return a, o.findRights(ctx, c, a)
}

// unasked is the rule checker of steps whose rights are asked for later, all at once.
type unasked struct{}

func (unasked) MissingRules(*corev1.ServiceAccount, string, []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	return nil, nil
}

// findAccount takes the account of --account, or else that of the namespace's OperatorGroup with its
// targets.
func (o *Options) findAccount(ctx context.Context, c client.Client, a *about) error {
	if o.Account != "" {
		var err error
		a.account, err = source.ParseAccount(o.Account)
		if a.namespace == "" {
			a.namespace = a.account.Namespace
		}
		return err
	}
	if c == nil {
		return errors.New("--account is required with --rbac-dir: the ServiceAccount that bounds the install, as NAMESPACE/NAME")
	}
	if a.namespace == "" {
		var err error
		if a.namespace, err = o.Cluster.Namespace(); err != nil {
			return err
		}
	}
	account, group, err := scoped.Lookup{Reader: c}.Account(ctx, a.namespace)
	if err != nil {
		return fmt.Errorf("account of namespace %q: %w; or say which, by --account", a.namespace, err)
	}
	a.account = account.Key()
	a.targets, err = scoped.Targets(ctx, c, group)
	return err
}

func (o *Options) findRights(ctx context.Context, c client.Client, a *about) error {
	if o.RBACDir != "" {
		listers, err := grants.Folder(o.RBACDir)
		if err != nil {
			return err
		}
		a.rights = grants.Listed(listers, a.account)
		return nil
	}
	var err error
	a.rights, err = grants.Cluster(ctx, c, a.account, grants.Namespaces(a.namespace, a.targets))
	return err
}

func (a *about) evaluate(ctx context.Context) (*result, error) {
	needs, err := preflight.NeedsOf(a.steps, a.rights.RulesOf, func(step.Step) bool { return false })
	if err != nil {
		return nil, err
	}
	return &result{about: a, report: a.rights.Report(ctx, needs)}, nil
}
