package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// planOf returns the InstallPlan of a Subscription: the only one that is executed and whose pins are for the Subscription as it is now.
// If several match, it returns the one whose content is confirmed. The Subscription's status, which other users may be able to write,
// selects only among plans that are no longer executed, for which nothing is granted.
func planOf(ctx context.Context, c client.Client, sub *operatorsv1alpha1.Subscription, given []*source.Bundle) (*operatorsv1alpha1.InstallPlan, error) {
	list := &operatorsv1alpha1.InstallPlanList{}
	if err := c.List(ctx, list, client.InNamespace(sub.Namespace)); err != nil {
		return nil, err
	}
	var executed, confirmed, past []*operatorsv1alpha1.InstallPlan
	for n := range list.Items {
		plan := &list.Items[n]
		pins, err := source.PlanPins(plan)
		if err != nil || !slices.ContainsFunc(pins.Pins, func(pin resolver.Pin) bool { return isFor(pin, sub) }) {
			continue // an edited plan is not executed
		}
		if whyOver(plan) != "" {
			past = append(past, plan)
			continue
		}
		current, err := isCurrent(ctx, c, pins)
		if err != nil {
			return nil, err
		}
		if !current {
			continue
		}
		executed = append(executed, plan)
		if !slices.ContainsFunc(source.OriginsOf(ctx, c, pins.Pins, given), isOpen(sub)) {
			confirmed = append(confirmed, plan)
		}
	}
	if len(executed) == 0 {
		return lastOf(past, sub)
	}
	return only(executed, confirmed, sub)
}

// only returns the only confirmed plan or, without one, the only plan.
func only(executed, confirmed []*operatorsv1alpha1.InstallPlan, sub *operatorsv1alpha1.Subscription) (*operatorsv1alpha1.InstallPlan, error) {
	switch {
	case len(confirmed) == 1:
		return confirmed[0], nil
	case len(executed) == 1:
		return executed[0], nil
	}
	return nil, fmt.Errorf("Subscription %s/%s has several InstallPlans that are not finished: %s. Specify each bundle with --bundle, or one of these as installplan/NAME",
		sub.Namespace, sub.Name, strings.Join(namesOf(executed), ", "))
}

// isFor reports whether a pin is for the Subscription as it is now. The UID includes the name.
func isFor(pin resolver.Pin, sub *operatorsv1alpha1.Subscription) bool {
	spec := sub.Spec
	return spec != nil && pin.SubscriptionUID == sub.UID && pin.Package == spec.Package &&
		pin.Catalog == spec.CatalogSource && pin.CatalogNamespace == spec.CatalogSourceNamespace && (spec.Channel == "" || spec.Channel == pin.Channel)
}

// isCurrent reports whether each pin is for a Subscription of the namespace as it is now.
func isCurrent(ctx context.Context, c client.Client, pins resolver.Plan) (bool, error) {
	for _, pin := range pins.Pins {
		sub := &operatorsv1alpha1.Subscription{}
		err := c.Get(ctx, client.ObjectKey{Namespace: pins.Namespace, Name: pin.Subscription}, sub)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
		if err != nil || !isFor(pin, sub) {
			return false, nil
		}
	}
	return true, nil
}

// isOpen returns a function that reports whether a user who named the Subscription must decide about the content of a pin. The
// Subscription selects a channel of a package of its catalog, whose content therefore needs no decision. All other bundles, which
// belong to Subscriptions that other users may have created, need one: --bundle.
func isOpen(sub *operatorsv1alpha1.Subscription) func(source.Origin) bool {
	return func(o source.Origin) bool {
		isSelected := isFor(o.Pin, sub) && o.Pin.Channel == cmp.Or(sub.Spec.Channel, o.DefaultChannel)
		return !o.IsConfirmed() || !o.Given && !isSelected
	}
}

// lastOf returns the plan that a Subscription's status names, or the newest, of plans that are no longer executed. It prefers complete
// plans.
func lastOf(past []*operatorsv1alpha1.InstallPlan, sub *operatorsv1alpha1.Subscription) (*operatorsv1alpha1.InstallPlan, error) {
	isIncomplete := func(plan *operatorsv1alpha1.InstallPlan) bool {
		return plan.Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete
	}
	if complete := slices.DeleteFunc(slices.Clone(past), isIncomplete); len(complete) > 0 {
		past = complete
	}
	var last *operatorsv1alpha1.InstallPlan
	for _, plan := range past {
		if ref := sub.Status.InstallPlanRef; ref != nil && ref.Name == plan.Name {
			return plan, nil
		}
		if last == nil || resolver.CompareAge(last, plan) < 0 {
			last = plan
		}
	}
	if last != nil {
		return last, nil
	}
	if failed := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed); failed.Message != "" {
		return nil, fmt.Errorf("Subscription %s/%s has no InstallPlan: %s: %s", sub.Namespace, sub.Name, failed.Reason, failed.Message)
	}
	return nil, fmt.Errorf("Subscription %s/%s has no InstallPlan yet", sub.Namespace, sub.Name)
}

// whyOver returns the reason why Remit does not execute a plan, or "" if it does.
func whyOver(plan *operatorsv1alpha1.InstallPlan) string {
	switch reason := plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Reason; {
	case string(reason) == names.ReasonSuperseded:
		return "is superseded by a newer InstallPlan"
	case plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete, plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed:
		return fmt.Sprintf("is finished, with phase %s", plan.Status.Phase)
	case string(reason) == names.ReasonBundleContentUnavailable:
		return "has content that its CatalogSources do not provide, or that Remit could not read yet (" + string(reason) + ")"
	}
	return ""
}

func namesOf(plans []*operatorsv1alpha1.InstallPlan) (out []string) {
	for _, plan := range plans {
		out = append(out, plan.Name)
	}
	return out
}

// originNotes describes the origin of each bundle of a plan.
func (i *input) originNotes() (out []string) {
	if i.plan == nil {
		return nil
	}
	for _, o := range i.origins {
		out = append(out, o.String())
	}
	if slices.ContainsFunc(i.origins, func(o source.Origin) bool { return !o.IsConfirmed() }) {
		out = append(out, source.Unproven)
	}
	if why := whyOver(i.plan); why != "" {
		out = append(out, i.what+" "+why)
	}
	return out
}

// notExecuted returns an error if Remit does not execute the plan, or executes it only with other content of its catalogs.
func (i *input) notExecuted() error {
	if why := whyOver(i.plan); why != "" {
		return fmt.Errorf("%s %s: nothing is granted for it; to grant what a bundle needs, use kubectl remit preflight BUNDLE -o yaml", i.what, why)
	}
	for _, o := range i.origins {
		if o.Differs {
			return fmt.Errorf("%s: %s: nothing is granted for it", i.what, o)
		}
	}
	return nil
}

// unconfirmed returns an error if the user named a Subscription, and it is not certain that the plan has the content that the user wants.
func (i *input) unconfirmed() error {
	if i.subscription == nil {
		return nil
	}
	var open []string
	for _, o := range i.origins {
		if isOpen(i.subscription)(o) {
			open = append(open, o.Pin.Bundle)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return fmt.Errorf("nothing confirms that %s has the content that Subscription %s selects (%s). "+
		"Specify each bundle with --bundle, or, if you have verified the InstallPlan, specify installplan/%s instead of the Subscription",
		i.what, i.subscription.Name, strings.Join(open, ", "), i.plan.Name)
}
