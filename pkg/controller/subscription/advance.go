package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// advance finds out where the Subscriptions are, decides for all of them at once, and makes the plans that are
// missing. The error is to be retried; the views hold in any case.
func (r *Reconciler) advance(ctx context.Context, w *world) (map[types.UID]*view, error) {
	views := map[types.UID]*view{}
	for i := range w.subscriptions {
		if sub := &w.subscriptions[i]; sub.DeletionTimestamp == nil && sub.Spec != nil {
			views[sub.UID] = w.look(sub)
		}
	}
	if w.blocked != nil {
		for _, v := range views {
			if v.installed == nil && v.resolved == "" {
				v.problem = w.blocked
			}
		}
		return views, nil
	}
	ns := w.toResolve(views)
	known := r.answers.get(w.namespace, key(w, ns))
	if known.Answer == nil {
		answer := w.input.Resolve(ns)
		known.Answer = &answer
	}
	for uid, v := range views {
		v.head, v.problem, v.held = known.Answer.Heads[uid], known.Answer.Problems[uid], known.Answer.Held[uid]
	}
	var errs []error
	for _, set := range known.Answer.Sets {
		errs = append(errs, r.install(ctx, w, known, set, views))
	}
	if err := errors.Join(errs...); err != nil {
		return views, err
	}
	r.answers.put(w.namespace, known)
	return views, nil
}

// look is what there is to say of a Subscription before anything is decided.
func (w *world) look(sub *operatorsv1alpha1.Subscription) *view {
	v := &view{
		installed: w.installedFor(sub), catalog: w.catalogOf(sub), account: w.input.Account, forward: w.forward,
		deprecated: w.deprecationsOf(sub), plan: w.planOf(sub),
	}
	switch {
	case v.plan != nil && inFlight(v.plan) && settled(v.plan):
		v.resolved = pinOf(v.plan, sub).Bundle
	case v.installed != nil:
		v.resolved = v.installed.Name
		if v.plan != nil && inFlight(v.plan) {
			v.plan = nil // what waits for approval is decided anew
		}
	default:
		v.plan = nil
	}
	return v
}

// pinOf is what a plan, which was made for the Subscription, makes of it.
func pinOf(ip *operatorsv1alpha1.InstallPlan, sub *operatorsv1alpha1.Subscription) *resolver.Pin {
	plan, err := resolver.Decode(ip.Namespace, ip.Name, ip.Annotations[names.AnnotationPlan])
	if err != nil {
		return nil
	}
	if i := slices.IndexFunc(plan.Pins, func(p resolver.Pin) bool { return p.SubscriptionUID == sub.UID }); i >= 0 {
		return &plan.Pins[i]
	}
	return nil
}

// toResolve is the namespace as the resolver sees it.
func (w *world) toResolve(views map[types.UID]*view) (ns resolver.Namespace) {
	for i := range w.subscriptions {
		if v := views[w.subscriptions[i].UID]; v != nil && !w.madeBeside(&w.subscriptions[i]) {
			ns.Subjects = append(ns.Subjects, w.subject(&w.subscriptions[i], v))
		}
	}
	for i := range w.csvs {
		if csv := &w.csvs[i]; csv.Labels[names.LabelCopiedFrom] == "" && csv.DeletionTimestamp == nil && !w.brought(csv) {
			ns.Others = append(ns.Others, csv)
		}
	}
	return ns
}

// madeBeside says that a Subscription was made for what others need, and a person's for the same package stands
// beside it: that one counts.
func (w *world) madeBeside(sub *operatorsv1alpha1.Subscription) bool {
	made := func(s *operatorsv1alpha1.Subscription) bool { return s.Annotations[names.AnnotationGeneratedBy] != "" }
	return made(sub) && slices.ContainsFunc(w.subscriptions, func(other operatorsv1alpha1.Subscription) bool {
		return other.Spec != nil && other.Spec.Package == sub.Spec.Package && other.DeletionTimestamp == nil && !made(&other)
	})
}

func (w *world) subject(sub *operatorsv1alpha1.Subscription, v *view) resolver.Subject {
	s := resolver.Subject{Subscription: sub, Installed: v.installed}
	if v.plan != nil && inFlight(v.plan) && settled(v.plan) {
		s.Planned = pinOf(v.plan, sub)
	}
	if v.installed != nil {
		s.Keep = !w.replaceable(v.installed)
	}
	s.Optional = sub.Annotations[names.AnnotationGeneratedBy] != "" && v.installed == nil && s.Planned == nil
	return s
}

// replaceable says whether another version may take the place of this one: it is well, or has failed and the
// OperatorGroup says that this is no reason to keep it.
func (w *world) replaceable(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	phase := csv.Status.Phase
	return phase == operatorsv1alpha1.CSVPhaseSucceeded || w.forward && phase == operatorsv1alpha1.CSVPhaseFailed
}

// brought says whether a CSV is of the lineage of a Subscription: that one speaks for it, and for what it
// has replaced.
func (w *world) brought(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return slices.ContainsFunc(w.subscriptions, func(sub operatorsv1alpha1.Subscription) bool {
		return sub.Spec != nil && w.lineage(&sub).Owns(csv)
	})
}

// install makes the plan of a set of changes, and before it the Subscriptions that the set needs.
func (r *Reconciler) install(ctx context.Context, w *world, known *known, set []resolver.Choice, views map[types.UID]*view) error {
	concerned := subscriptionsOf(set)
	complete := true
	for i := range set {
		if set[i].Subscription != nil {
			continue
		}
		complete = false
		if err := r.ensureSubscription(ctx, w, set[i]); err != nil {
			return notMade(ctx, views, concerned, err)
		}
	}
	if !complete {
		return nil // the events of those that were made bring us back
	}
	name := nameOf(set)
	plan, ok := known.plans[name]
	if !ok {
		var err error
		if plan, _, err = resolver.ResolveSteps(ctx, w.input, set); err != nil {
			return refuse(views, concerned, err)
		}
		known.plans[name] = plan
	}
	ip, err := r.ensurePlan(ctx, w, concerned, plan)
	if err != nil {
		return notMade(ctx, views, concerned, err)
	}
	for _, pin := range plan.Pins {
		if v := views[pin.SubscriptionUID]; v != nil {
			v.plan, v.resolved = ip, pin.Bundle
		}
	}
	return nil
}

// refuse says of Subscriptions that their bundles cannot be had. What a registry does not give is asked for
// again; that a catalog has no content for a bundle, or a bundle is no good, only a new catalog mends.
func refuse(views map[types.UID]*view, concerned []*operatorsv1alpha1.Subscription, err error) error {
	var waiting *catalog.NotUnpacked
	if errors.As(err, &waiting) && waiting.Failure == nil {
		for _, sub := range concerned {
			if v := views[sub.UID]; v != nil {
				v.unpacking = waiting.Error()
			}
		}
		return nil // the catalog's Store tells when it is there
	}
	for _, sub := range concerned {
		if v := views[sub.UID]; v != nil {
			v.problem = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: err.Error()}
			if errors.Is(err, resolver.ErrContent) {
				v.unpackFailed = &reasoned{reasonUnpackFailed, err.Error()}
			}
		}
	}
	var unread *resolver.Unread
	if errors.As(err, &unread) {
		return fmt.Errorf("resolve: %w", err)
	}
	return nil
}

// notMade says of Subscriptions that what is made for them (a plan, a Subscription of what they need) was refused, by a
// quota or a policy for instance. It is tried again.
func notMade(ctx context.Context, views map[types.UID]*view, concerned []*operatorsv1alpha1.Subscription, err error) error {
	if ctx.Err() != nil {
		return err
	}
	for _, sub := range concerned {
		if v := views[sub.UID]; v != nil {
			v.unpackFailed = &reasoned{reasonEnsureFailed, err.Error()}
		}
	}
	return err
}

// subscriptionsOf are those that a set of changes is made for, each once.
func subscriptionsOf(set []resolver.Choice) []*operatorsv1alpha1.Subscription {
	var out []*operatorsv1alpha1.Subscription
	add := func(sub *operatorsv1alpha1.Subscription) {
		if sub != nil && !slices.ContainsFunc(out, func(s *operatorsv1alpha1.Subscription) bool { return s.UID == sub.UID }) {
			out = append(out, sub)
		}
	}
	for _, c := range set {
		add(c.Subscription)
		for _, sub := range c.NeededBy {
			add(sub)
		}
	}
	return out
}
