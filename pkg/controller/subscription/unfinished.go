package subscription

import (
	"cmp"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/resolver"
)

// The ClusterServiceVersion is the first object that a plan writes, so its existence does not show that the plan was completed. A
// version is unfinished if the plan that wrote it may not have been completed. Then another plan with the same content is created
// unless the version is upgraded (docs/adr/0101).

// isUnfinished reports whether the installed version of a Subscription is unfinished. The Subscription's newest plan shows this, or, if
// the plan to which the status refers was deleted, what the status says about it. A Subscription that was created after the version
// finishes it unless the version has already succeeded: the plans of an earlier Subscription are deleted with it. A duplicate finishes
// nothing, so that a version gets one plan. Any user may have written the statuses, which cause at most another plan of the content that
// is installed.
func (w *world) isUnfinished(sub *operatorsv1alpha1.Subscription, installed *operatorsv1alpha1.ClusterServiceVersion) bool {
	if installed == nil || w.isDuplicate(sub) {
		return false
	}
	made, ref := w.planOf(sub), sub.Status.InstallPlanRef
	switch {
	case made.plan != nil && made.pin.Bundle == installed.Name && made.plan.Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete:
		return true
	case ref == nil:
		return made.plan == nil && !w.findings().writes[installed.Name] && !hasSucceeded(installed)
	case w.findings().names[ref.Name]:
		return false
	}
	follows := made.plan != nil && made.pin.Again == ref.Name // the cache does not show the status that refers to the newest plan yet
	return !follows && sub.Status.CurrentCSV == installed.Name && status.PlanWasIncomplete(&sub.Status)
}

// finishes reports whether a plan installs an unfinished version.
func (w *world) finishes(plan resolver.Plan) bool {
	return slices.ContainsFunc(plan.Pins, func(pin resolver.Pin) bool {
		return slices.ContainsFunc(w.subscriptions, func(sub operatorsv1alpha1.Subscription) bool {
			return sub.UID == pin.SubscriptionUID && sub.Spec != nil && w.isUnfinished(&sub, w.installedFor(&sub))
		})
	})
}

// toFinish returns a set for each unfinished version that the given sets do not upgrade and that its catalog contains.
func (w *world) toFinish(views map[types.UID]*view, sets [][]resolver.Choice) (out [][]resolver.Choice) {
	changes := map[types.UID]bool{}
	for _, set := range sets {
		for _, c := range set {
			if c.Subscription != nil {
				changes[c.Subscription.UID] = true
			}
		}
	}
	for i := range w.subscriptions {
		sub := &w.subscriptions[i]
		v := views[sub.UID]
		if v == nil || !v.unfinished || v.pinned != nil || v.tooLarge || changes[sub.UID] {
			continue
		}
		if choice, ok := w.sameVersion(sub, v.installed); ok {
			out = append(out, []resolver.Choice{choice})
		}
	}
	return out
}

// sameVersion returns the choice that installs an installed version again. ok is false if the channel of the Subscription does not
// contain the version now. The content is that of the newest plan of the version, even if what it replaced has been deleted since:
// otherwise, a plan that has failed would be tried again.
func (w *world) sameVersion(sub *operatorsv1alpha1.Subscription, installed *operatorsv1alpha1.ClusterServiceVersion) (c resolver.Choice, ok bool) {
	key := w.catalogOf(sub).key
	snapshot, ok := w.input.Snapshot(key)
	if !ok || snapshot.Packages[sub.Spec.Package] == nil {
		return c, false
	}
	pkg := snapshot.Packages[sub.Spec.Package]
	channel := pkg.Channels[cmp.Or(sub.Spec.Channel, pkg.DefaultChannel)]
	if channel == nil || channel.Entries[installed.Name].Name == "" || pkg.Bundles[installed.Name] == nil {
		return c, false
	}
	c = resolver.Choice{
		Catalog: key, Package: sub.Spec.Package, Channel: channel.Name, Bundle: installed.Name,
		Subscription: sub, NeededBy: []*operatorsv1alpha1.Subscription{sub},
	}
	replaced := func(csv *operatorsv1alpha1.ClusterServiceVersion) bool { return csv.Name == installed.Spec.Replaces }
	if made := w.planOf(sub); made.plan != nil && made.pin.Bundle == installed.Name {
		c.Replaces = made.pin.Replaces
	} else if slices.ContainsFunc(w.ownedBy(sub.Spec.Package), replaced) {
		c.Replaces = installed.Spec.Replaces
	}
	return c, true
}

// missingPlan returns the reason and message of the condition InstallPlanMissing: the installed version is unfinished, and no plan
// finishes it now. It returns nil if the condition is absent.
func missingPlan(v view) *reasoned {
	if !v.unfinished || v.plan != nil || v.deleting != "" {
		return nil
	}
	return &reasoned{names.ReasonPlanIncomplete, message.Lines(
		message.Sprintf("The InstallPlan of ClusterServiceVersion %s was deleted and may not have been complete, so objects of this version may be missing. "+
			"Remit creates another InstallPlan when the Subscription's channel contains this version and the namespace can be resolved", v.installed.Name),
		howToReplace(v.installed))}
}

// howToReplace describes how to install another version instead of an unfinished one.
func howToReplace(installed *operatorsv1alpha1.ClusterServiceVersion) message.Text {
	return message.Sprintf("To install the version that the Subscription selects now instead, delete the ClusterServiceVersion: kubectl delete csv %s -n %s",
		message.Word(installed.Name), message.Word(installed.Namespace))
}

// howToContinue describes how to continue the plan of an unfinished version that is not going to be completed, or returns "".
func howToContinue(v view) message.Text {
	if !v.unfinished || v.installed == nil || v.resolved != v.installed.Name {
		return ""
	}
	if v.plan.Status.Phase != operatorsv1alpha1.InstallPlanPhaseFailed {
		return howToReplace(v.installed)
	}
	return message.Lines(message.Sprintf("ClusterServiceVersion %s exists, but objects of this version may be missing. To try again, delete the InstallPlan: "+
		"kubectl delete installplan %s -n %s", v.installed.Name, message.Word(v.plan.Name), message.Word(v.plan.Namespace)), howToReplace(v.installed))
}
