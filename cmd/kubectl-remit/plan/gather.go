package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// view contains the data to show about a plan.
type view struct {
	plan *operatorsv1alpha1.InstallPlan
	// origins describe the pins.
	origins []source.Origin
	group   *operatorsv1.OperatorGroup
	// targets are the target namespaces.
	targets []string
	// steps are the plan's steps, and the roles and bindings for its webhooks and APIServices, permissions first.
	steps []step.Step
	// csvs are the ClusterServiceVersions among the steps.
	csvs []*operatorsv1alpha1.ClusterServiceVersion
	// parts are the Services and Secrets that are written for webhooks and APIServices, in addition to the steps.
	parts []string
	// missing is what the plan's status reports as missing. It is untrusted, because other users can write the status.
	missing []string
	notes   []string
}

// gather reads the cluster and renders the content that the plan's name commits to.
func gather(ctx context.Context, c client.Client, plan *operatorsv1alpha1.InstallPlan, given []*source.Bundle) (*view, error) {
	v := &view{plan: plan}
	pins, _, err := source.PlanContent(plan, given...)
	if errors.Is(err, resolver.ErrNotKept) {
		return nil, fmt.Errorf("%w: pass each bundle with --bundle", err)
	}
	if err != nil {
		return nil, err
	}
	v.origins = source.OriginsOf(ctx, c, pins.Pins, given)
	if err := v.findGroup(ctx, c); err != nil {
		return nil, err
	}
	steps, err := source.PlanSteps(ctx, plan, source.Target{Group: v.group.Name, Targets: v.targets, Unbounded: v.isUnbounded()}, given...)
	if err != nil {
		return nil, err
	}
	if err := v.setSteps(steps); err != nil {
		return nil, err
	}
	v.missing = missing(plan)
	return v, nil
}

// isUnbounded reports whether the OperatorGroup names no account, so only the installation's default account can act.
func (v *view) isUnbounded() bool { return v.group.Spec.ServiceAccountName == "" }

// findGroup sets the plan's OperatorGroup and its targets. This command does not know the installation's default
// account. If the OperatorGroup uses that account to evaluate a selector, findGroup takes the targets from the
// OperatorGroup's status.
func (v *view) findGroup(ctx context.Context, c client.Client) error {
	var err error
	v.group, v.targets, err = grants.Group(ctx, c, v.plan.Namespace)
	if scoped.ReasonOf(err) == scoped.NoAccount {
		v.targets, err = v.group.Status.Namespaces, nil
		v.notes = append(v.notes, fmt.Sprintf("the target namespaces are those in the status of OperatorGroup %s/%s", v.group.Namespace, v.group.Name))
	}
	if err != nil {
		return err
	}
	if len(v.targets) == 0 {
		return fmt.Errorf("OperatorGroup %s/%s selects no namespaces", v.group.Namespace, v.group.Name)
	}
	return nil
}

func (v *view) setSteps(steps []step.Step) error {
	access, parts, err := preflight.Serving(steps)
	if err != nil {
		return err
	}
	for _, obj := range parts {
		v.parts = append(v.parts, apply.Describe(obj))
	}
	v.steps = append(slices.Clone(steps), access...)
	slices.SortStableFunc(v.steps, func(a, b step.Step) int { return cmp.Compare(sectionOf(a), sectionOf(b)) })
	for _, s := range steps {
		if !s.IsCSV() {
			continue
		}
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := apply.Decode(s.Object, csv); err != nil {
			return err
		}
		v.csvs = append(v.csvs, csv)
	}
	return nil
}

// objects returns the objects that the plan writes, in the order of the text output.
func (v *view) objects() []client.Object {
	out := make([]client.Object, 0, len(v.steps))
	for _, s := range v.steps {
		out = append(out, s.Object)
	}
	return out
}

// The sections of the text output. sectionDeployments is for ClusterServiceVersions, which contain the Deployments.
const (
	sectionPermissions = iota
	sectionAPI
	sectionDeployments
	sectionOther
)

func sectionOf(s step.Step) int {
	switch {
	case bundle.IsRBAC(s.Object):
		return sectionPermissions
	case s.IsCRD():
		return sectionAPI
	case s.IsCSV():
		return sectionDeployments
	}
	return sectionOther
}

// missing returns what the plan's conditions report as missing, without the RBAC to apply.
func missing(plan *operatorsv1alpha1.InstallPlan) []string {
	var out []string
	for _, t := range []operatorsv1alpha1.InstallPlanConditionType{names.ConditionPermissionsMissing, names.ConditionObjectsRefused} {
		c := plan.Status.GetCondition(t)
		if c.Status == corev1.ConditionTrue {
			out = append(out, strings.TrimSpace(preflight.WithoutPaste(c.Message)))
		}
	}
	return out
}
