package subscription

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/resolver"
)

// advance determines the state of the Subscriptions, resolves the whole namespace, and creates missing InstallPlans. It
// returns the views of the Subscriptions, which are valid even if there is an error, or none if the statuses should not
// change.
func (r *Reconciler) advance(ctx context.Context, w *world) (map[types.UID]*view, error) {
	views := w.views()
	if len(views) == 0 {
		r.long.drop(w.namespace)
		r.answers.Delete(w.namespace)
		return views, nil
	}
	if w.blocked != nil {
		return views, nil
	}
	ns := w.toResolve(views)
	known := r.answers.find(w.namespace, key(w, ns), w.served)
	if known.answer == nil {
		if later, err := r.resolve(ctx, w, ns, known); later != nil || err != nil {
			return later.views(views, w), err
		}
	}
	for uid, v := range views {
		if !v.tooLarge {
			v.head, v.problem, v.heldBack = known.answer.Heads[uid], known.answer.Problems[uid], known.answer.HeldBack[uid]
		}
	}
	known.restart()
	err := r.installAll(ctx, w, known, views)
	if err == nil || w.input.Reading.IsOver() { // the bundles that were read need not be read again
		r.answers.Set(w.namespace, known)
	}
	return views, err
}

// installAll creates the plans for all sets of an answer. If the time for reading bundles ends, the next reconcile begins with the set
// that had too little time or, if that set had all of the time, with the one after it.
func (r *Reconciler) installAll(ctx context.Context, w *world, known *known, views map[types.UID]*view) error {
	var errs []error
	sets, first := slices.Concat(known.answer.Sets, w.toFinish(views, known.answer.Sets)), known.first
	for i := range sets {
		at := (first + i) % len(sets)
		hadAll, hadTime := !w.input.Reading.Begun(), !w.input.Reading.IsOver()
		errs = append(errs, r.install(ctx, w, known, sets[at], views))
		if hadTime && w.input.Reading.IsOver() {
			known.first = at
			if hadAll {
				known.first++
			}
		}
	}
	return errors.Join(errs...)
}

// views describes each Subscription as it is before the resolution. If the namespace is blocked, the reason is reported
// as the problem of each Subscription for which nothing is installed or planned.
func (w *world) views() map[types.UID]*view {
	views := map[types.UID]*view{}
	for i := range w.subscriptions {
		sub := &w.subscriptions[i]
		if sub.DeletionTimestamp != nil || sub.Spec == nil {
			continue
		}
		v := w.viewOf(sub)
		if w.blocked != nil && v.installed == nil && v.resolved == "" {
			v.problem = w.blocked
		}
		if err := budget.Refused(sub); err != nil {
			v.tooLarge, v.problem = true, &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: incomplete(err)}
		}
		views[sub.UID] = v
	}
	return views
}

// incomplete describes why only a part of a Subscription was read.
func incomplete(err error) string {
	if kit.Is[*budget.ObjectError](err) {
		return "spec.config is too large: " + err.Error()
	}
	return err.Error()
}

// resolve resolves a namespace within the light limits, and stores the answer in the cache entry. If the namespace
// cannot be resolved now, or the limits are exceeded, it returns why the namespace has to wait.
func (r *Reconciler) resolve(ctx context.Context, w *world, ns resolver.Namespace, known *known) (*parked, error) {
	if later := r.long.check(w.namespace, known.key, w.served); later != nil {
		return later, nil
	}
	resolved := r.metrics.resolving()
	answer, err := w.input.Resolve(ctx, resolver.Light(), ns)
	if !kit.Is[*resolver.LimitError](err) { // a long resolution follows, and is the one that counts
		resolved(answer, err)
	}
	switch {
	case kit.Is[*resolver.LimitError](err):
		r.long.enqueue(w.namespace, known.key, &job{input: w.input, ns: ns, asking: w.asking})
		return &parked{}, nil
	case err != nil:
		return nil, err
	}
	known.answer, known.used = &answer, w.asking.used
	return nil, nil
}

// views returns the views of a namespace that is not resolved now, with the problem and heads of p. It returns nil
// while a resolution is queued or running, so that the statuses do not change, except for the recorded account.
func (p *parked) views(all map[types.UID]*view, w *world) map[types.UID]*view {
	if p == nil || p.problem == nil {
		return nil
	}
	w.after = p.after
	for uid, v := range all {
		if !v.tooLarge {
			v.problem, v.head = p.problem, p.heads[uid]
		}
	}
	return all
}

// viewOf describes a Subscription as it is before the resolution.
func (w *world) viewOf(sub *operatorsv1alpha1.Subscription) *view {
	made := w.planOf(sub)
	v := &view{
		installed: w.installedFor(sub), catalog: w.catalogOf(sub), account: w.input.Account, named: scoped.ToRecord(w.named, recordedAccount(&sub.Status)), forward: w.forward,
		deprecated: w.deprecationsOf(sub), plan: made.plan,
	}
	v.unfinished = w.isUnfinished(sub, v.installed)
	switch {
	case v.plan != nil && inFlight(v.plan) && isFixed(v.plan) && !hasChanged(sub, v.installed != nil, made):
		v.resolved, v.pinned = made.pin.Bundle, made.pin
	case v.installed != nil:
		v.resolved = v.installed.Name
		if v.plan != nil && inFlight(v.plan) && made.pin.Bundle != v.resolved {
			v.plan = nil // the Subscription is resolved again, for example because its plan waits for approval
		}
	default:
		v.plan = nil
	}
	return v
}

// toResolve returns the resolver's input for the namespace. A Subscription of which the cache contains only a part keeps its
// installed version.
func (w *world) toResolve(views map[types.UID]*view) (ns resolver.Namespace) {
	subscribed := w.subscribedCSVs()
	for i := range w.subscriptions {
		if v := views[w.subscriptions[i].UID]; v != nil && !w.isDuplicate(&w.subscriptions[i]) && (!v.tooLarge || v.installed != nil) {
			ns.Subjects = append(ns.Subjects, w.subject(&w.subscriptions[i], v))
		}
	}
	for i := range w.csvs {
		if csv := &w.csvs[i]; csv.Labels[names.LabelCopiedFrom] == "" && csv.DeletionTimestamp == nil && !subscribed[csv] {
			ns.Others = append(ns.Others, csv)
		}
	}
	return ns
}

func (w *world) subject(sub *operatorsv1alpha1.Subscription, v *view) resolver.Subject {
	s := resolver.Subject{Subscription: sub, Installed: v.installed, Planned: v.pinned}
	if v.installed != nil {
		s.Keep = v.tooLarge || !w.replaceable(v.installed)
	}
	s.Optional = sub.Annotations[names.AnnotationGeneratedBy] != "" && v.installed == nil && s.Planned == nil
	return s
}

// replaceable reports whether another version can replace this CSV, which requires that the CSV has succeeded, or that
// it has failed and the OperatorGroup allows replacing failed versions.
func (w *world) replaceable(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	phase := csv.Status.Phase
	return phase == operatorsv1alpha1.CSVPhaseSucceeded || w.forward && phase == operatorsv1alpha1.CSVPhaseFailed
}

// install creates the plan for a set of changes. If the set needs Subscriptions that do not exist, it creates these
// first, and a later reconcile creates the plan.
func (r *Reconciler) install(ctx context.Context, w *world, known *known, set []resolver.Choice, views map[types.UID]*view) error {
	concerned := subscriptionsOf(set)
	complete := true
	for i := range set {
		if set[i].Subscription != nil {
			continue
		}
		complete = false
		if err := r.ensureSubscription(ctx, w, set[i]); err != nil {
			return reportNotCreated(ctx, views, concerned, err)
		}
	}
	if !complete {
		return nil // the events for the created Subscriptions trigger another reconcile
	}
	name := nameOf(set)
	resolved, ok := known.plans[name]
	if !ok {
		var err error
		if resolved.plan, _, resolved.excess, err = resolver.ResolveSteps(ctx, w.input, set); err != nil {
			return r.reportUnavailable(w, known, views, concerned, err)
		}
		known.keep(name, resolved)
	}
	plan := resolved.plan
	if pending := w.deletionPending(plan); pending != "" {
		known.recompute(name)
		each(views, concerned, func(v *view) { v.deleting, v.missing = pending, w.missing(resolved) })
		return nil
	}
	ip, err := r.ensurePlan(ctx, w, concerned, plan)
	if err != nil {
		known.recompute(name)
		each(views, concerned, func(v *view) { v.missing = w.missing(resolved) })
	}
	if errors.Is(err, resolver.ErrContent) {
		known.unpin(name, err)
		return r.reportUnavailable(w, known, views, concerned, err)
	}
	if err != nil {
		return reportNotCreated(ctx, views, concerned, err)
	}
	for _, pin := range plan.Pins {
		if v := views[pin.SubscriptionUID]; v != nil {
			v.plan, v.resolved = ip, pin.Bundle
		}
	}
	return nil
}

// reportUnavailable records in the views that bundles are not available. It returns an error if a read failed, so that
// the read is retried. If a catalog has no content for a bundle, or the bundle is invalid, only a new version of the
// catalog can fix the problem.
func (r *Reconciler) reportUnavailable(w *world, known *known, views map[types.UID]*view, concerned []*operatorsv1alpha1.Subscription, err error) error {
	if waiting, ok := errors.AsType[*catalog.NotUnpacked](err); ok && waiting.Failure == nil {
		r.await(w, known, views, concerned, waiting)
		return nil // the catalog's Store wakes the namespace when the content is available
	}
	text := message.Of(err)
	if failed, ok := errors.AsType[*catalog.NotUnpacked](err); ok && r.timeLeft(w, known, failed) == 0 {
		text = messageUnpackTimeout // the condition ResolutionFailed still has the cause
	}
	each(views, concerned, func(v *view) {
		v.problem = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: err.Error()}
		v.unpackFailed = &reasoned{reasonUnpackFailed, text}
	})
	if kit.Is[*resolver.ReadError](err) {
		return fmt.Errorf("resolve: %w", err)
	}
	return nil
}

// messageUnpackTimeout is OLM's message after the timeout of an OperatorGroup. Tools compare the whole message.
const messageUnpackTimeout = "bundle unpacking failed. Reason: DeadlineExceeded, and Message: Job was active longer than specified deadline"

// await reports that a bundle is being unpacked and, after the OperatorGroup's timeout, that unpacking failed. In both
// cases, the pull continues, and the bundle is installed once it succeeds.
func (r *Reconciler) await(w *world, known *known, views map[types.UID]*view, concerned []*operatorsv1alpha1.Subscription, waiting *catalog.NotUnpacked) {
	unpacking := waiting.Error()
	var failed *reasoned
	if r.timeLeft(w, known, waiting) == 0 {
		unpacking += fmt.Sprintf("; the OperatorGroup's annotation %s allows %s, but the pull continues", names.AnnotationUnpackTimeout, w.unpackTimeout)
		failed = &reasoned{reasonUnpackFailed, messageUnpackTimeout}
	}
	each(views, concerned, func(v *view) { v.unpacking, v.unpackFailed = unpacking, failed })
}

// timeLeft returns how much of the OperatorGroup's timeout for an image is left, and wakes the namespace when it ends.
func (r *Reconciler) timeLeft(w *world, known *known, waiting *catalog.NotUnpacked) time.Duration {
	if w.unpackTimeout == 0 {
		return unlimited
	}
	left := w.unpackTimeout - r.Clock.Since(known.awaitedSince(waiting.Image, r.Clock.Now()))
	if left <= 0 {
		return 0
	}
	w.wakeAfter(left)
	return left
}

// unlimited is the time that is left without a timeout.
const unlimited time.Duration = math.MaxInt64

// unpackTimeout returns the value of an OperatorGroup's annotation, or 0 if there is none or it is not a positive
// duration.
func unpackTimeout(og *operatorsv1.OperatorGroup) time.Duration {
	timeout, err := time.ParseDuration(og.Annotations[names.AnnotationUnpackTimeout])
	if err != nil {
		return 0
	}
	return max(timeout, 0)
}

// reportNotCreated records in the views that a plan or Subscription could not be created, for example because of a
// quota or a policy. It returns an error so that the creation is retried.
func reportNotCreated(ctx context.Context, views map[types.UID]*view, concerned []*operatorsv1alpha1.Subscription, err error) error {
	if ctx.Err() != nil {
		return err
	}
	each(views, concerned, func(v *view) { v.unpackFailed = &reasoned{reasonEnsureFailed, message.Of(err)} })
	return err
}

// each calls change for the views of the given Subscriptions. Some Subscriptions may have no view.
func each(views map[types.UID]*view, subs []*operatorsv1alpha1.Subscription, change func(*view)) {
	for _, sub := range subs {
		if v := views[sub.UID]; v != nil {
			change(v)
		}
	}
}

// subscriptionsOf returns the Subscriptions that need the changes in a set, without duplicates.
func subscriptionsOf(set []resolver.Choice) []*operatorsv1alpha1.Subscription {
	var out []*operatorsv1alpha1.Subscription
	seen := map[types.UID]bool{}
	add := func(sub *operatorsv1alpha1.Subscription) {
		if sub != nil && !seen[sub.UID] {
			seen[sub.UID] = true
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
