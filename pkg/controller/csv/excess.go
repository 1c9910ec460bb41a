package csv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// gatherExceeding finds the CSV's roles and bindings that its account would not be allowed to write any more, and
// removes them after a grace period (docs/adr/0071). It does so in every phase, even if the CSV is being replaced or
// cannot be installed, because the permissions exist regardless of the phase. Without an account, all permissions exceed
// it, because a tenant could otherwise keep them by deleting the OperatorGroup (docs/adr/0082).
func (r *Reconciler) gatherExceeding(ctx context.Context, s *scope) error {
	bound, err := r.Default.Lookup(r.Client).Bound(ctx, s.csv.Namespace)
	if err != nil || s.leftToOLM {
		return err
	}
	have, err := r.provenRBAC(ctx, s.owner)
	if err != nil {
		return err
	}
	holders := r.bounds(bound, r.RBAC.RulesOf)
	all, err := holders.Find(createdFor(s.owner, have))
	if err != nil {
		return err
	}
	for _, p := range placesOf(client.ObjectKeyFromObject(s.csv)) {
		found := s.foundAt(p, all)
		err = errors.Join(err, r.boundAt(ctx, s, p, bound, found))
	}
	return err
}

// place is where an operator exceeds its account. What exceeds it elsewhere, in other namespaces than the CSV's own, is removed in the
// same way, but does not affect the phase, because users of these namespaces can cause it (docs/adr/0093). It also has its own grace
// period, so that they cannot end that of the operator's own namespace.
type place struct {
	csv       client.ObjectKey
	elsewhere bool
}

func placesOf(csv client.ObjectKey) []place { return []place{{csv: csv}, {csv: csv, elsewhere: true}} }

// isElsewhere reports whether a namespace is another one than the CSV's own.
func (s *scope) isElsewhere(namespace string) bool {
	return namespace != rbac.ClusterScope && namespace != s.csv.Namespace
}

// foundAt returns the objects of a place. It omits those that a finalizer keeps in a namespace that is no longer a target: only the users
// of that namespace can end their deletion, and the controller of OperatorGroups still reports them (docs/adr/0082).
func (s *scope) foundAt(p place, all []excess.Object) []excess.Object {
	var out []excess.Object
	for _, o := range all {
		namespace := o.Object.GetNamespace()
		isLeft := p.elsewhere && o.Object.GetDeletionTimestamp() != nil && s.facts.Group == nil && !slices.Contains(s.targets, namespace)
		if s.isElsewhere(namespace) == p.elsewhere && !isLeft {
			out = append(out, o)
		}
	}
	return out
}

// stopExcess forgets what exceeded the account at a place.
func (r *Reconciler) stopExcess(p place) {
	r.excess.Stop(p)
	r.told.Delete(p)
}

// boundAt reports what exceeds the account at a place, and removes it after the grace period.
func (r *Reconciler) boundAt(ctx context.Context, s *scope, p place, bound scoped.Bound, found []excess.Object) error {
	switch {
	case len(found) == 0:
		r.stopExcess(p)
		return nil
	case bound.KeptBy != "":
		r.stopExcess(p)
		s.facts.Notes = append(s.facts.Notes, aboutExcess(bound, found, fmt.Sprintf("they are kept because of the annotation %s of OperatorGroup %s/%s",
			names.AnnotationKeepExcess, bound.Namespace, bound.KeptBy)))
		return nil
	}
	due := r.excess.Deadline(p, s.facts.Now, excessReported(s.csv, p), r.Grace)
	s.reportAt(p, aboutExcess(bound, found, fmt.Sprintf("at %s, Remit removes them. %s", due.UTC().Format(time.RFC3339), bound.Remedy())))
	if left := due.Sub(s.facts.Now); left > 0 {
		s.wakeAfter(left)
		return nil
	}
	if left := r.excess.Paused(p, s.facts.Now); left > 0 {
		last := r.told.Get(p)
		s.reportAt(p, last.report)
		if last.exceeds {
			s.outdated(p.elsewhere) // the status of the last attempt remains
		}
		s.wakeAfter(left) // something has changed since the last attempt
		return nil
	}
	return r.shrink(ctx, s, p, bound, found)
}

// reportAt records the report about a place.
func (s *scope) reportAt(p place, report string) {
	if p.elsewhere {
		s.facts.Elsewhere = report
		return
	}
	s.facts.Exceeding = report
}

// outdated records that the cache does not show a removal yet. A removal elsewhere delays nothing, because users of other namespaces
// could cause one at any time.
func (s *scope) outdated(elsewhere bool) { s.facts.Unsynced = s.facts.Unsynced || !elsewhere }

// told is the result of an attempt that has removed nothing. exceeds is true if the API server confirmed that something exceeds the account,
// and isComplete is false if not everything was examined.
type told struct {
	report              string
	exceeds, isComplete bool
}

// pause reports that an attempt has removed nothing, and delays the next one.
func (r *Reconciler) pause(s *scope, p place, is told) {
	left := r.excess.Pause(p, s.facts.Now)
	r.told.Set(p, is)
	s.reportAt(p, is.report)
	if !is.isComplete {
		s.wakeAfter(left)
	}
}

// bounds returns the permissions of the accounts of a namespace.
func (r *Reconciler) bounds(bound scoped.Bound, rulesOf rbac.RoleRules) excess.Bounds {
	subjects := make([]rbac.Subject, 0, len(bound.Accounts))
	for _, account := range bound.Accounts {
		subjects = append(subjects, rbac.ServiceAccount(account.Namespace, account.Name))
	}
	return excess.NewBounds(r.RBAC, rulesOf, r.Proofs, subjects...)
}

// excessReported returns when the status first reported the current excess, or the zero time. The history of a phase
// that reports no excess ends the search. The status does not record when an excess elsewhere was first reported.
func excessReported(csv *operatorsv1alpha1.ClusterServiceVersion, p place) time.Time {
	var since time.Time
	if p.elsewhere {
		return since
	}
	for _, c := range slices.Backward(csv.Status.Conditions) {
		if c.Phase == phaseSucceeded && c.Reason != reasonExceedsAccount {
			break
		}
		if c.Reason == reasonExceedsAccount && c.LastUpdateTime != nil {
			since = c.LastUpdateTime.Time
		}
	}
	return since
}

// shrink removes the roles and bindings whose grace period is over. Everything that the removal depends on is read
// again, also the OperatorGroups. The event for an object that has changed triggers another reconcile.
func (r *Reconciler) shrink(ctx context.Context, s *scope, p place, bound scoped.Bound, cached []excess.Object) error {
	if current, err := r.live().Bound(ctx, s.csv.Namespace); err != nil || !current.Same(bound) {
		return err
	}
	is, err := r.bounds(bound, excess.LiveRules(ctx, r.Live)).Examine(ctx, r.Live, s.owner.Owns, excess.Reviewer(r.confirmer.Ask), cached)
	if err != nil {
		return err
	}
	if is.IsOutdated {
		s.outdated(p.elsewhere)
	}
	confirmed := is.Confirmed
	if len(confirmed) == 0 {
		r.reportAllowed(s, p, bound, cached, is)
		return nil
	}
	s.facts.Exceeds = true
	remain, why, err := r.removeExceeding(ctx, s, bound, confirmed)
	if err != nil {
		return err
	}
	s.facts.Shrunk = s.facts.Shrunk || !p.elsewhere
	if len(remain) == 0 {
		s.reportAt(p, aboutExcess(bound, confirmed, "Remit has removed them, and restores the operator's permissions when the ServiceAccount has them again"))
		return nil
	}
	var commands []string
	for _, obj := range remain {
		commands = append(commands, excess.Command(obj))
	}
	report := aboutExcess(bound, confirmed, fmt.Sprintf("they cannot be removed (%s); to remove them, run: %s", summary(why), lines(commands)))
	if len(remain) == len(confirmed) {
		r.pause(s, p, told{report, true, is.IsComplete})
	}
	s.reportAt(p, report)
	return nil
}

// reportAllowed reports what exceeds the account according to the cache, although nothing was confirmed.
func (r *Reconciler) reportAllowed(s *scope, p place, bound scoped.Bound, cached []excess.Object, is excess.Examined) {
	report := "" // nothing exceeds it any more
	switch {
	case !is.IsComplete:
		report = aboutExcess(bound, cached, is.Kept("ServiceAccount"))
	case len(is.Found) > 0:
		report = aboutExcess(bound, is.Found, is.Kept("ServiceAccount"))
	}
	r.pause(s, p, told{report: report, isComplete: is.IsComplete})
}

// aboutExcess describes the permissions that the accounts are missing, the objects that grant them to the operator, and
// what happens to these objects.
func aboutExcess(bound scoped.Bound, found []excess.Object, fate string) string {
	return fmt.Sprintf("%s%s is missing permissions: %s; the operator has them through %s: %s", noteExceeds, bound,
		lines(excess.Missing(found, maxLines/2)), lines(excess.Names(found)), fate)
}

// removeExceeding deletes the objects as the account or, where the account is not allowed to, as the default account and
// then as the optional identity for removals. It returns the objects that none of them may delete, and the reason.
func (r *Reconciler) removeExceeding(ctx context.Context, s *scope, bound scoped.Bound, found []excess.Object) (remain []client.Object, why, err error) {
	for _, o := range found {
		remain = append(remain, o.Object)
	}
	account, _, none := r.Default.Lookup(r.Live).Account(ctx, s.csv.Namespace)
	switch {
	case scoped.ReasonOf(none) != "":
		why = none
	case none != nil:
		return remain, nil, none
	default:
		s.account = account
		allowed := func(obj client.Object) error {
			return r.missingPermissions(ctx, s, forShrinking, []*unstructured.Unstructured{r.reference(obj)}, "delete")
		}
		if remain, why, err = r.removeAs(ctx, s, bound, account, remain, allowed); err != nil || len(remain) == 0 {
			return remain, why, err
		}
	}
	other, noDefault := r.defaultAccount(ctx, s)
	if noDefault == nil && other != account {
		if remain, why, err = r.removeAs(ctx, s, bound, other, remain, always); err != nil || len(remain) == 0 {
			return remain, why, err
		}
	}
	own, reason, err := r.Remover.Client(ctx, r.RBAC, why)
	if own == nil {
		return remain, reason, err
	}
	return r.removeWith(ctx, s, bound, own, remain, always)
}

// defaultAccount returns the account of OperatorGroups that name none.
func (r *Reconciler) defaultAccount(ctx context.Context, s *scope) (scoped.Account, error) {
	group := &operatorsv1.OperatorGroup{}
	group.Namespace = s.csv.Namespace
	return r.Default.Lookup(r.Live).AccountOf(ctx, group)
}

func always(client.Object) error { return nil }

// removeAs deletes the objects as an account, if the findings of this reconcile permit it. It returns the objects that
// the account is not allowed to delete, and the reason.
func (r *Reconciler) removeAs(ctx context.Context, s *scope, bound scoped.Bound, account scoped.Account, objs []client.Object, allowed func(client.Object) error) (remain []client.Object, why, err error) {
	own, err := r.clientFor(ctx, account)
	if scoped.ReasonOf(err) != "" {
		return objs, err, nil
	}
	if err != nil {
		return objs, nil, err
	}
	return r.removeWith(ctx, s, bound, own, objs, allowed)
}

// removeWith is removeAs with a client.
func (r *Reconciler) removeWith(ctx context.Context, s *scope, bound scoped.Bound, own client.Client, objs []client.Object, allowed func(client.Object) error) (remain []client.Object, why, err error) {
	deleter, err := warrant.Of(own).For(warrant.Shrink, s.facts.findings())
	if err != nil {
		return objs, nil, err
	}
	for _, obj := range objs {
		denied := cmp.Or(excess.CheckFinalizers(obj), allowed(obj))
		if denied == nil {
			denied = apply.DeleteUnchanged(ctx, deleter, obj)
		}
		switch {
		case denied == nil:
			s.outdated(s.isElsewhere(obj.GetNamespace()))
			log.FromContext(ctx).Info("Removed an object that exceeds the account", "object", apply.Describe(obj), "account", bound.String())
			r.Recorder.Eventf(s.csv, nil, corev1.EventTypeWarning, eventRemoved, "Shrink", "%s",
				status.Note("removed "+apply.Describe(obj)+", because it exceeds "+bound.String()))
		case isDenied(denied) || apierrors.IsConflict(denied) || kit.Is[*excess.KeptError](denied):
			remain, why = append(remain, obj), denied
		default:
			return nil, nil, denied
		}
	}
	return remain, why, nil
}
