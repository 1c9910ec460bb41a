package csv

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
)

// gatherIntercepting narrows the live webhooks of the CSV's lineage to what the accounts of the namespace permit them to
// intercept (docs/adr/0089). Like gatherExceeding, it does so in every phase and regardless of the OperatorGroups, because
// the API server calls the webhooks regardless of them.
func (r *Reconciler) gatherIntercepting(ctx context.Context, s *scope) error {
	if s.leftToOLM {
		return nil
	}
	configurations, err := hooks.Configurations(ctx, r.Client, s.owner, client.MatchingFields{kit.LineageIndex: s.owner.ShortMark()})
	if err != nil || len(configurations) == 0 {
		return err
	}
	bound, err := r.Default.Lookup(r.Client).HookBound(ctx, s.csv.Namespace)
	if err != nil || bound.Default {
		return err
	}
	var undecided []error // they do not protect others
	for _, obj := range configurations {
		cuts, err := r.interceptions(ctx, s, bound, r.confirmer).Cut(ctx, obj.DeepCopy())
		if err != nil {
			undecided = append(undecided, err)
			continue
		}
		if len(cuts) == 0 {
			s.wakeAfter(r.confirmer.Recheck(s.asker()))
			continue
		}
		s.overreach = true
		if bound.KeptBy != "" {
			s.facts.Notes = append(s.facts.Notes, aboutCuts(bound, cuts, fmt.Sprintf("they are kept because of the annotation %s of OperatorGroup %s/%s",
				names.AnnotationKeepExcess, bound.Namespace, bound.KeptBy)))
			continue
		}
		if err := r.narrow(ctx, s, bound, obj); err != nil {
			return err
		}
	}
	return errors.Join(undecided...)
}

// aboutCuts describes what webhooks intercept although the accounts do not permit it, and what happens to them.
func aboutCuts(bound scoped.Bound, cuts []webhook.Cut, fate string) string {
	return fmt.Sprintf("%s%s is missing permissions to read and write what the operator intercepts through %s: %s", noteExceeds, bound, preflight.DescribeCuts(cuts, maxLines), fate)
}

// narrow narrows a webhook configuration as the account or, where the account is not allowed to, as another account that bounds
// the namespace or as the default account.
// Everything that this depends on is read again: the OperatorGroups and the configuration from the API server, which also
// confirms that it denies the accounts the permissions.
func (r *Reconciler) narrow(ctx context.Context, s *scope, bound scoped.Bound, obj client.Object) error {
	if current, err := r.live().HookBound(ctx, s.csv.Namespace); err != nil || !current.Same(bound) {
		s.facts.Unsynced = true
		return err
	}
	live, desired, err := hooks.Editable(ctx, r.Live, obj)
	if err != nil || live == nil || !s.owner.Owns(live) {
		s.facts.Unsynced = true
		return err
	}
	cuts, err := r.interceptions(ctx, s, bound, &preflight.Confirmer{Ask: r.confirmer.Ask}).Cut(ctx, desired)
	if err != nil || len(cuts) == 0 {
		s.facts.Unsynced = s.facts.Unsynced || live.GetResourceVersion() != obj.GetResourceVersion()
		r.confirmer.ForgetAll(s.asker()) // the API server allows what it denied earlier
		s.wakeAfter(preflight.Settling)
		return err
	}
	s.facts.Intercepts = true
	why, err := r.narrowAsAny(ctx, s, bound, live, desired)
	switch {
	case why != nil:
		s.report(aboutCuts(bound, cuts, fmt.Sprintf("the webhooks cannot be changed (%s); to remove them, run: %s", summary(why), excess.Command(live))))
		return nil
	case err != nil && !apierrors.IsConflict(err):
		return err
	}
	s.facts.Unsynced = true
	if err != nil { // the event for the change triggers another reconcile
		return nil
	}
	log.FromContext(ctx).Info("Narrowed a webhook that exceeds the account", "object", apply.Describe(obj), "account", bound.String())
	r.Recorder.Eventf(s.csv, nil, corev1.EventTypeWarning, eventNarrowed, "Narrow", "%s", status.Note(aboutCuts(bound, cuts,
		"it no longer intercepts these requests, and intercepts them again when the ServiceAccount has the permissions")))
	return nil
}

// report adds a report about what exceeds the account.
func (s *scope) report(text string) {
	if s.facts.Exceeding != "" {
		text = s.facts.Exceeding + separator + text
	}
	s.facts.Exceeding = text
}

// narrowAsAny applies the narrowed configuration as the account or, if the account cannot or is not allowed to, as each of the
// other accounts that bound the namespace, and as the default account. It returns the reason if none is allowed to.
func (r *Reconciler) narrowAsAny(ctx context.Context, s *scope, bound scoped.Bound, live, desired *unstructured.Unstructured) (why, err error) {
	accounts, noAccount, err := r.Default.Lookup(r.Live).Acting(ctx, bound)
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		err := r.narrowAs(ctx, s, account, live, desired)
		if err == nil {
			return nil, nil
		}
		if scoped.ReasonOf(err) == "" && !isReported(err) {
			return nil, err
		}
		why = cmp.Or(why, err)
	}
	return cmp.Or(why, noAccount), nil
}

func (r *Reconciler) narrowAs(ctx context.Context, s *scope, account scoped.Account, live, desired *unstructured.Unstructured) error {
	own, err := r.clientFor(ctx, account)
	if err != nil {
		return err
	}
	writer, err := warrant.Of(own).For(warrant.Narrow, s.facts.findings())
	if err != nil {
		return err
	}
	_, made, err := apply.From(ctx, writer, live, desired, s.owner)
	if err == nil && !apply.Contains(made.Object["webhooks"], desired.Object["webhooks"]) {
		err = apply.NewCollision(live, errors.New("another client manages fields of the webhook"))
	}
	return err
}

// acceptNarrowed makes live webhooks that intercept less than planned count as in place while the account does not have the
// permissions for the plan, so that narrowed webhooks do not make the operator fail. What they do not intercept is noted.
func (s *scope) acceptNarrowed() error {
	if s.overreach {
		return nil
	}
	cuts, err := s.hooks.Within(s.live)
	if len(cuts) > 0 {
		s.facts.Notes = append(s.facts.Notes, "requests are not intercepted through "+preflight.DescribeCuts(cuts, maxLines)+
			", until the ServiceAccount has the permissions to read and write what the operator intercepts")
	}
	return err
}

// asker is the prefix of the keys with which the answers of the API server about interceptions are cached.
func (s *scope) asker() string { return client.ObjectKeyFromObject(s.csv).String() + " intercept " }

// interceptions determines what the webhooks of a namespace may intercept.
func (r *Reconciler) interceptions(ctx context.Context, s *scope, bound scoped.Bound, confirmer *preflight.Confirmer) preflight.Interceptions {
	out := preflight.Interceptions{Reader: r.Client, RBAC: r.RBAC, Scopes: r.world().Lookups().Scopes(ctx), Confirmer: confirmer, Asker: s.asker(), Proofs: r.Proofs}
	for _, key := range bound.Accounts {
		out.Identities = append(out.Identities, scoped.Account{Namespace: key.Namespace, Name: key.Name}.Identity())
	}
	return out
}
