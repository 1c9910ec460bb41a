package csv

import (
	"context"
	"errors"
	"fmt"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/remit-olm/remit/pkg/rbac"
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
	bound, err := r.Default.Lookup(r.Client).Bound(ctx, s.csv.Namespace)
	if err != nil || bound.Default {
		return err
	}
	for _, obj := range configurations {
		cuts, err := r.limits(ctx, s, bound, r.confirmer).cut(obj.DeepCopy())
		if err != nil {
			return err
		}
		if len(cuts) == 0 {
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
	return nil
}

// aboutCuts describes what webhooks intercept although the accounts do not permit it, and what happens to them.
func aboutCuts(bound scoped.Bound, cuts []webhook.Cut, fate string) string {
	return fmt.Sprintf("%s%s is missing permissions to read and write what the operator intercepts through %s: %s", noteExceeds, bound, describeCuts(cuts), fate)
}

func describeCuts(cuts []webhook.Cut) string {
	list := make([]string, 0, len(cuts))
	for _, c := range cuts {
		list = append(list, c.String())
	}
	return lines(list)
}

// narrow narrows a webhook configuration as the account or, where the account is not allowed to, as the default account.
// Everything that this depends on is read again: the OperatorGroups and the configuration from the API server, which also
// confirms that it denies the accounts the permissions.
func (r *Reconciler) narrow(ctx context.Context, s *scope, bound scoped.Bound, obj client.Object) error {
	if current, err := r.Default.Lookup(r.Live).Bound(ctx, s.csv.Namespace); err != nil || !current.Same(bound) {
		s.facts.Unsynced = true
		return err
	}
	live, desired, err := hooks.Editable(ctx, r.Live, obj)
	if err != nil || live == nil || !s.owner.Owns(live) {
		s.facts.Unsynced = true
		return err
	}
	cuts, err := r.limits(ctx, s, bound, &preflight.Confirmer{Ask: r.confirmer.Ask}).cut(desired)
	if err != nil || len(cuts) == 0 {
		s.facts.Unsynced = s.facts.Unsynced || live.GetResourceVersion() != obj.GetResourceVersion()
		r.confirmer.ForgetAll(s.asker()) // the API server allows what it denied earlier
		return err
	}
	s.facts.Intercepts = true
	why, err := r.narrowAsAny(ctx, s, live, desired)
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

// narrowAsAny applies the narrowed configuration as the account or, if the account cannot or is not allowed to, as the
// default account. It returns the reason if neither is allowed to.
func (r *Reconciler) narrowAsAny(ctx context.Context, s *scope, live, desired *unstructured.Unstructured) (why, err error) {
	lookup := r.Default.Lookup(r.Live)
	fallback := &operatorsv1.OperatorGroup{}
	fallback.Namespace = s.csv.Namespace
	for _, find := range []func() (scoped.Account, error){
		func() (scoped.Account, error) {
			account, _, err := lookup.Account(ctx, s.csv.Namespace)
			return account, err
		},
		func() (scoped.Account, error) { return lookup.AccountOf(ctx, fallback) },
	} {
		account, err := find()
		if err == nil {
			err = r.narrowAs(ctx, s, account, live, desired)
		}
		if err == nil {
			return nil, nil
		}
		if scoped.ReasonOf(err) == "" && !isReported(err) {
			return nil, err
		}
		if why == nil {
			why = err
		}
	}
	return why, nil
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
		s.facts.Notes = append(s.facts.Notes, "requests are not intercepted through "+describeCuts(cuts)+
			", until the ServiceAccount has the permissions to read and write what the operator intercepts")
	}
	return err
}

// asker is the prefix of the keys with which the answers of the API server about interceptions are cached.
func (s *scope) asker() string { return client.ObjectKeyFromObject(s.csv).String() + " intercept " }

// limits determines what the webhooks of a namespace may intercept.
type limits struct {
	r         *Reconciler
	ctx       context.Context //nolint:containedctx // for the callback that webhook.Narrow calls
	s         *scope
	bound     scoped.Bound
	confirmer *preflight.Confirmer
	err       error
}

func (r *Reconciler) limits(ctx context.Context, s *scope, bound scoped.Bound, confirmer *preflight.Confirmer) *limits {
	return &limits{r: r, ctx: ctx, s: s, bound: bound, confirmer: confirmer}
}

// cut removes from a configuration what none of the accounts permits. An error means that this could not be determined.
func (l *limits) cut(obj *unstructured.Unstructured) ([]webhook.Cut, error) {
	scopes := webhook.Remembered(webhook.First(webhook.Builtin, l.r.world().Lookups().Scopes(l.ctx)))
	cuts, err := webhook.Narrow(obj, scopes, func(name string, d webhook.Demand, namespace string) bool {
		held, err := l.held(apply.Describe(obj)+" "+name, name, d, namespace)
		if l.err == nil {
			l.err = err
		}
		return held || err != nil
	})
	if err == nil {
		err = l.err
	}
	return cuts, err
}

// held reports whether one of the accounts meets a demand in a namespace. A permission that RBAC does not grant is missing
// only if the API server confirms this. Nothing is intercepted in a namespace that does not exist, and the install removes
// it from the webhook.
func (l *limits) held(asker, name string, d webhook.Demand, namespace string) (bool, error) {
	if namespace != rbac.ClusterScope {
		err := l.r.Client.Get(l.ctx, types.NamespacedName{Name: namespace}, &corev1.Namespace{})
		if err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
	}
	for _, key := range l.bound.Accounts {
		account := scoped.Account{Namespace: key.Namespace, Name: key.Name}
		identities := preflight.Identities{Account: account.Identity(), RBAC: l.r.RBAC, In: func(namespace string) ([]string, error) {
			return scoped.ServiceAccounts(l.ctx, l.r.Client, namespace)
		}}
		needs, err := identities.Resolve(hooks.Demanded(name, d, namespace))
		if err != nil {
			return false, err
		}
		for i := range needs {
			needs[i].Granted = false // the API server is asked about permissions of other ServiceAccounts too
		}
		report := preflight.Examine(account.Identity(), needs, func(namespace string) rbac.Permissions {
			return l.r.RBAC.LowerBound(rbac.ServiceAccount(key.Namespace, key.Name), namespace)
		})
		report = l.confirmer.Confirm(l.ctx, fmt.Sprintf("%s%s %s %s %t", l.s.asker(), key, asker, namespace, len(d.Cluster) > 0), report)
		switch {
		case report.Clear() && len(report.Unknown) == 0:
			return true, nil
		case report.Clear():
			return false, undecided(report)
		}
	}
	return false, nil
}
