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

// Target is what the steps of an InstallPlan depend on, in addition to its content.
type Target struct {
	// Group is the name of the namespace's OperatorGroup, and Targets are its target namespaces.
	Group   string
	Targets []string
	// Unbounded is set if the group names no account and the installation's default account is used.
	Unbounded bool
}

// PlanContent returns the pins of an InstallPlan and the content of each, which the plan carries or one of the given bundles
// has. The error is resolver.ErrNotKept if the content is missing. It only returns content that the plan's name commits to.
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

// choose returns each pin's content, from the given bundles or from the content that the plan keeps.
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
			return nil, fmt.Errorf("the given content of bundle %q is %s, but the plan's name commits to %s", pin.Bundle, digests[pin.Bundle], pin.Digest)
		default:
			return nil, fmt.Errorf("%w, and bundle %q is not given", resolver.ErrNotKept, pin.Bundle)
		}
	}
	return out, nil
}

// PlanSteps builds the steps of an InstallPlan from its content, like the controllers. It does not read the plan's status, which
// others can write.
func PlanSteps(plan *operatorsv1alpha1.InstallPlan, t Target, given ...*Bundle) ([]step.Step, error) {
	pins, contents, err := PlanContent(plan, given...)
	if err != nil {
		return nil, err
	}
	steps, err := resolver.StepsFrom(resolver.Input{
		Namespace: plan.Namespace, Group: t.Group, Targets: t.Targets, Account: scoped.Account{Default: t.Unbounded},
		RBAC: rbac.Unreadable(errors.New("the account's permissions are checked later")),
	}, pins, contents)
	if err != nil {
		return nil, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	return steps, nil
}
