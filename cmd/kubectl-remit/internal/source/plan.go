package source

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// Target contains what the steps of an InstallPlan depend on in addition to the plan's content.
type Target struct {
	// Group is the name of the namespace's OperatorGroup, and Targets are its target namespaces.
	Group   string
	Targets []string
	// Unbounded is set if the group names no account and the installation's default account is used.
	Unbounded bool
}

// PlanPins returns the pins of an InstallPlan. The plan's name commits to them.
func PlanPins(plan *operatorsv1alpha1.InstallPlan) (resolver.Plan, error) {
	pins, err := resolver.Decode(plan.Namespace, plan.Name, plan.Annotations[names.AnnotationPlan])
	if err != nil {
		return pins, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	return pins, nil
}

// PlanContent returns the pins of an InstallPlan and the content of each pin, from the plan or from the given bundles.
// It returns only content that the plan's name commits to, and fails if a given bundle has the name of a pin but other content. If
// content is missing, the error wraps resolver.ErrNotKept.
func PlanContent(plan *operatorsv1alpha1.InstallPlan, given ...*Bundle) (resolver.Plan, []*catalog.Content, error) {
	pins, err := PlanPins(plan)
	if err != nil {
		return pins, nil, err
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

// choose returns each pin's content, from the given bundles or from the plan.
func choose(pins resolver.Plan, kept []*catalog.Content, given []*Bundle) ([]*catalog.Content, error) {
	byDigest := map[string]*catalog.Content{}
	for _, content := range kept {
		byDigest[content.Digest()] = content
	}
	var out []*catalog.Content
	for _, pin := range pins.Pins {
		of := named(given, pin.Bundle)
		i := slices.IndexFunc(of, func(b *Bundle) bool { return b.Content.Digest() == pin.Digest })
		switch content := byDigest[pin.Digest]; {
		case i >= 0:
			out = append(out, of[i].Content)
		case len(of) > 0: // even if the plan contains the content: the user wants to compare it
			return nil, fmt.Errorf("bundle %q from --bundle has digest %s, but the plan requires digest %s", pin.Bundle, of[0].Content.Digest(), pin.Digest)
		case content != nil:
			out = append(out, content)
		default:
			return nil, fmt.Errorf("%w, and --bundle does not provide bundle %q", resolver.ErrNotKept, pin.Bundle)
		}
	}
	return out, nil
}

// PlanSteps builds the steps of an InstallPlan from its content, as the controllers do. It does not read the plan's
// status, because other users can write it.
func PlanSteps(ctx context.Context, plan *operatorsv1alpha1.InstallPlan, t Target, given ...*Bundle) ([]step.Step, error) {
	pins, contents, err := PlanContent(plan, given...)
	if err != nil {
		return nil, err
	}
	steps, err := resolver.StepsFrom(ctx, resolver.Input{
		Namespace: plan.Namespace, Group: t.Group, Targets: t.Targets, Account: scoped.Account{Default: t.Unbounded},
		RBAC: rbac.Unreadable(errors.New("the account's permissions are checked later")),
	}, pins, contents)
	if err != nil {
		return nil, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	return steps, nil
}
