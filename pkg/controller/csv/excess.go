package csv

import (
	"cmp"
	"context"
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
	found, err := holders.Find(createdFor(s.owner, have))
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(s.csv)
	switch {
	case len(found) == 0:
		r.excess.Stop(key)
		return nil
	case bound.KeptBy != "":
		r.excess.Stop(key)
		s.facts.Notes = append(s.facts.Notes, aboutExcess(bound, found, fmt.Sprintf("they are kept because of the annotation %s of OperatorGroup %s/%s",
			names.AnnotationKeepExcess, bound.Namespace, bound.KeptBy)))
		return nil
	}
	due := r.excess.Deadline(key, s.facts.Now, excessReported(s.csv), r.Grace)
	s.facts.Exceeding = aboutExcess(bound, found, fmt.Sprintf("at %s, Remit removes them. %s", due.UTC().Format(time.RFC3339), bound.Remedy()))
	if left := due.Sub(s.facts.Now); left > 0 {
		s.wakeAfter(left)
		return nil
	}
	if left := r.excess.Paused(key, s.facts.Now); left > 0 {
		s.facts.Unsynced = true // the status of the last attempt remains
		s.wakeAfter(left)
		return nil
	}
	return r.shrink(ctx, s, bound, holders.Batch(found))
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
// that reports no excess ends the search.
func excessReported(csv *operatorsv1alpha1.ClusterServiceVersion) time.Time {
	var since time.Time
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
// again: the OperatorGroups and the objects from the API server, which also confirms that it denies the accounts the
// permissions. The event for an object that has changed triggers another reconcile.
func (r *Reconciler) shrink(ctx context.Context, s *scope, bound scoped.Bound, cached []excess.Object) error {
	if current, err := r.live().Bound(ctx, s.csv.Namespace); err != nil || !current.Same(bound) {
		return err
	}
	live, err := excess.Reread(ctx, r.Live, s.owner.Owns, cached)
	if err != nil {
		return err
	}
	holders := r.bounds(bound, excess.LiveRules(ctx, r.Live))
	found, err := holders.Find(live)
	if err != nil {
		return err
	}
	s.facts.Unsynced = s.facts.Unsynced || len(found) < len(cached)
	confirmed, err := holders.Confirm(ctx, excess.Reviewer(r.confirmer.Ask), found)
	if err != nil {
		return err
	}
	if len(confirmed) == 0 {
		if len(found) > 0 {
			r.excess.Pause(client.ObjectKeyFromObject(s.csv), s.facts.Now)
			s.facts.Exceeding = aboutExcess(bound, found, excess.Kept("ServiceAccount"))
		}
		return nil
	}
	s.facts.Exceeds = true
	remain, why, err := r.removeExceeding(ctx, s, bound, confirmed)
	if err != nil {
		return err
	}
	s.facts.Shrunk = true
	if len(remain) == 0 {
		s.facts.Exceeding = aboutExcess(bound, confirmed, "Remit has removed them, and restores the operator's permissions when the ServiceAccount has them again")
		return nil
	}
	if len(remain) == len(confirmed) {
		r.excess.Pause(client.ObjectKeyFromObject(s.csv), s.facts.Now)
	}
	var commands []string
	for _, obj := range remain {
		commands = append(commands, excess.Command(obj))
	}
	s.facts.Exceeding = aboutExcess(bound, confirmed, fmt.Sprintf("they cannot be removed (%s); to remove them, run: %s", summary(why), lines(commands)))
	return nil
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
	fallback := &operatorsv1.OperatorGroup{}
	fallback.Namespace = s.csv.Namespace
	other, noDefault := r.Default.Lookup(r.Live).AccountOf(ctx, fallback)
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
			s.facts.Unsynced = true
			log.FromContext(ctx).Info("Removed an object that exceeds the account", "object", apply.Describe(obj), "account", bound.String())
			r.Recorder.Eventf(s.csv, nil, corev1.EventTypeWarning, eventRemoved, "Shrink", "%s",
				status.Note("removed "+apply.Describe(obj)+", because it exceeds "+bound.String()))
		case apierrors.IsConflict(denied): // the event for the change triggers another reconcile
			s.facts.Unsynced = true
		case isDenied(denied) || kit.Is[*excess.KeptError](denied):
			remain, why = append(remain, obj), denied
		default:
			return nil, nil, denied
		}
	}
	return remain, why, nil
}
