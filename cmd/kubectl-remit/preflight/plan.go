package preflight

import (
	"context"
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// objectInput returns the input of the check for an InstallPlan, or for the InstallPlan of a Subscription.
func (o *Options) objectInput(ctx context.Context, obj client.Object, name string) (*input, error) {
	if o.RBACDir != "" {
		return nil, fmt.Errorf("--rbac-dir can be used only with a bundle: %s %q is in a cluster", apply.KindOf(obj), name)
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return nil, err
	}
	i := &input{namespace: o.Namespace}
	if i.namespace == "" {
		if i.namespace, err = o.Cluster.Namespace(); err != nil {
			return nil, err
		}
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: name}, obj); err != nil {
		return nil, err
	}
	given, err := o.givenBundles(ctx)
	if err != nil {
		return nil, err
	}
	plan, ok := obj.(*operatorsv1alpha1.InstallPlan)
	if sub, isSub := obj.(*operatorsv1alpha1.Subscription); isSub {
		i.subscription = sub
		plan, err = planOf(ctx, c, sub, given)
	} else if !ok {
		err = fmt.Errorf("%T is not supported", obj)
	}
	if err != nil {
		return nil, err
	}
	return i, o.findPlan(ctx, c, i, plan, given)
}

// findPlan sets the steps of a plan and what they depend on.
func (o *Options) findPlan(ctx context.Context, c client.Client, i *input, plan *operatorsv1alpha1.InstallPlan, given []*source.Bundle) error {
	i.what, i.from, i.client, i.plan = "InstallPlan "+plan.Name, fromSteps, c, plan
	if err := o.findAccount(ctx, c, i); err != nil {
		return err
	}
	pins, err := source.PlanPins(plan)
	if err != nil {
		return err
	}
	i.origins = source.OriginsOf(ctx, c, pins.Pins, given)
	steps, err := planSteps(ctx, c, i, given)
	if errors.Is(err, resolver.ErrNotKept) {
		i.from = fromReport
		return o.useReport(ctx, i, plan, err)
	}
	if err != nil {
		return err
	}
	i.setSteps(steps)
	return o.findPermissions(ctx, c, i)
}

// givenBundles reads the bundles from --bundle once.
func (o *Options) givenBundles(ctx context.Context) ([]*source.Bundle, error) {
	for _, arg := range o.Bundles[len(o.loaded):] {
		b, err := o.Load(ctx, arg)
		if err != nil {
			return nil, err
		}
		o.loaded = append(o.loaded, b)
	}
	return o.loaded, nil
}

// planSteps builds the steps of a plan for the targets of the OperatorGroup in the plan's namespace, regardless of the
// account.
func planSteps(ctx context.Context, c client.Client, i *input, given []*source.Bundle) ([]step.Step, error) {
	if i.group == "" {
		group, targets, err := grants.Group(ctx, c, i.namespace)
		if err != nil {
			return nil, err
		}
		i.group, i.targets = group.Name, targets
	}
	return source.PlanSteps(ctx, i.plan, source.Target{Group: i.group, Targets: i.targets}, given...)
}

// useReport uses the controller's report about a plan that does not include the content of its bundles. The report
// covers only the account of the namespace's OperatorGroup.
func (o *Options) useReport(ctx context.Context, i *input, plan *operatorsv1alpha1.InstallPlan, why error) error {
	if o.Account != "" {
		return fmt.Errorf("%w, and its report is about the account of the OperatorGroup: omit --account, or check the bundle instead", why)
	}
	missing := plan.Status.GetCondition(names.ConditionPermissionsMissing)
	if missing.Status == corev1.ConditionFalse {
		i.report = &preflight.Report{Identity: i.identity, Notes: []string{fmt.Sprintf("%v: using its condition %s", why, missing.Type)}}
		return nil
	}
	stored := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: plan.Namespace, Name: names.ReportPrefix + plan.Name}
	if err := i.client.Get(ctx, key, stored); err != nil {
		return fmt.Errorf("%w, and its report cannot be read: %w; its condition %s is: %s", why, err, missing.Type, missing.Message)
	}
	var d preflight.Document
	if err := yaml.UnmarshalStrict([]byte(stored.Data[preflight.FileReport]), &d); err != nil {
		return fmt.Errorf("%w, and its report in ConfigMap %s cannot be read: %w", why, key, err)
	}
	if d.Account != i.identity.ID() {
		return fmt.Errorf("%w, and its report in ConfigMap %s is about ServiceAccount %s, not %s", why, key, d.Account, i.identity.ID())
	}
	i.report = reportOf(i.identity, d)
	i.report.Notes = append(i.report.Notes, fmt.Sprintf("%v: using the report in ConfigMap %s", why, key))
	if d.LeftOut > 0 {
		i.report.Notes = append(i.report.Notes, fmt.Sprintf("%d entries did not fit into the report: check the bundle instead", d.LeftOut))
	}
	return nil
}

// reportOf converts a document back to a report. Fields that the document does not contain remain empty.
func reportOf(identity scoped.Identity, d preflight.Document) *preflight.Report {
	findings := func(scopes []preflight.ScopeDocument) []preflight.Finding {
		var out []preflight.Finding
		for _, s := range scopes {
			for _, rule := range s.Rules {
				for _, cause := range rule.Causes {
					f := preflight.Finding{Namespace: s.Namespace, Missing: []rbacv1.PolicyRule{rule.Rule}, Cause: cause, Why: rule.Why}
					if len(rule.Sources) > 0 {
						f.Source = rule.Sources[0]
					}
					out = append(out, f)
				}
			}
		}
		return out
	}
	missing := findings(d.Missing)
	for _, cause := range d.Hidden {
		missing = append(missing, preflight.Finding{Hidden: true, Cause: cause})
	}
	return &preflight.Report{
		Identity: identity, Findings: missing, Later: findings(d.Later), Unknown: findings(d.Unknown), Allowed: findings(d.Allowed),
		Refused: d.Refused, Notes: d.Notes,
	}
}
