package source

import (
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// Target is what the steps of an InstallPlan depend on beside its content.
type Target struct {
	// Group is the name of the namespace's OperatorGroup, and Targets are its target namespaces.
	Group   string
	Targets []string
	// Unbounded says that the installation's default account stands in for one that the group would name.
	Unbounded bool
}

// PlanContent reads what an InstallPlan installs: its pins, and the content of each, which it carries or which one of the given
// bundles has. It fails with resolver.ErrNotKept if there is no content, and returns no content but the one that the plan's name
// commits to.
func PlanContent(plan *operatorsv1alpha1.InstallPlan, given ...*Bundle) (resolver.Plan, []*catalog.Content, error) {
	pins, err := resolver.Decode(plan.Namespace, plan.Name, plan.Annotations[names.AnnotationPlan])
	if err != nil {
		return pins, nil, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	contents, err := pins.Restore(plan.Annotations[names.AnnotationContent])
	if len(given) > 0 {
		contents, err = choose(pins, contents, given)
	}
	if err != nil {
		return pins, nil, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	return pins, contents, nil
}

// choose takes each pin's content from the given bundles, or else from what is kept, if there is any.
func choose(pins resolver.Plan, kept []*catalog.Content, given []*Bundle) ([]*catalog.Content, error) {
	byDigest := map[string]*catalog.Content{}
	digests := map[string]string{}
	for _, content := range kept {
		byDigest[content.Digest()] = content
	}
	for _, b := range given {
		digests[b.CSV.Name] = b.Content.Digest()
		byDigest[b.Content.Digest()] = b.Content
	}
	var out []*catalog.Content
	for _, pin := range pins.Pins {
		content := byDigest[pin.Digest]
		switch {
		case content != nil:
			out = append(out, content)
		case digests[pin.Bundle] != "":
			return nil, fmt.Errorf("the given content of bundle %q is %s, and the plan's name commits to %s", pin.Bundle, digests[pin.Bundle], pin.Digest)
		default:
			return nil, fmt.Errorf("%w, and bundle %q is not given", resolver.ErrNotKept, pin.Bundle)
		}
	}
	return out, nil
}

// PlanSteps are the steps of an InstallPlan, made from its content as the controllers make them. Its status, which others can
// write, is not read.
func PlanSteps(plan *operatorsv1alpha1.InstallPlan, t Target, given ...*Bundle) ([]step.Step, error) {
	pins, contents, err := PlanContent(plan, given...)
	if err != nil {
		return nil, err
	}
	none := rbac.Unreadable(errors.New("what the account holds is asked later"))
	steps, err := resolver.StepsFrom(resolver.Input{
		Namespace: plan.Namespace, Group: t.Group, Targets: t.Targets, Account: scoped.Account{Default: t.Unbounded},
		Roles: none.Roles, RoleBindings: none.RoleBindings, ClusterRoles: none.ClusterRoles, ClusterRoleBindings: none.ClusterRoleBindings,
	}, pins, contents)
	if err != nil {
		return nil, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	return steps, nil
}
