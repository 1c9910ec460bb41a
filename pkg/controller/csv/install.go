package csv

import (
	"cmp"
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/warrant"
)

// gatherDeployments determines the state of the Deployments and, if they were refused before, whether they would still
// be refused.
func (r *Reconciler) gatherDeployments(ctx context.Context, s *scope) error {
	if !s.runnable() {
		return nil
	}
	var err error
	if s.facts.Deployments, err = deployment.Check(ctx, r.Client, s.owner, s.deployments); err != nil || !s.acting.Known() {
		return err
	}
	if err := r.noteEdits(ctx, s); err != nil {
		return err
	}
	if s.facts.Refused == nil && s.csv.Status.Phase == phaseFailed && s.csv.Status.Reason == reasonNoRetry {
		s.facts.Probe = r.probe(ctx, s)
	}
	return nil
}

// noteRefusal updates refusals, and records in the facts whether, since the CSV failed, a check has found that the API
// server would refuse its writes.
func (r *Reconciler) noteRefusal(s *scope) {
	key := client.ObjectKeyFromObject(s.csv)
	switch {
	case s.csv.Status.Phase != phaseFailed || s.csv.Status.Reason != reasonNoRetry:
		r.refusals.Delete(key)
	case s.facts.Refused != nil || s.facts.CallRefused != nil || s.facts.Probe != nil && !isUndecided(s.facts.Probe):
		r.refusals.Set(key, true)
	}
	s.facts.WasRefused = r.refusals.Get(key)
}

// forgetRefusal drops the CSV's entry from refusals if this reconcile has changed the CSV's phase or reason.
func (r *Reconciler) forgetRefusal(s *scope) {
	if len(s.moves) > 0 {
		r.refusals.Delete(client.ObjectKeyFromObject(s.csv))
	}
}

// joinMissing merges two *MissingPermissionsErrors into one. If one of the errors has another type or is nil, it
// returns the first error that is not nil.
func joinMissing(a, b error) error {
	var one, other *MissingPermissionsError
	if !errors.As(a, &one) || !errors.As(b, &other) {
		return cmp.Or(a, b)
	}
	missing := slices.Concat(one.Missing, other.Missing)
	slices.Sort(missing)
	return &MissingPermissionsError{Account: one.Account, Missing: slices.Compact(missing), Refused: slices.Concat(one.Refused, other.Refused)}
}

// probe applies the Deployments in a dry run, so that a CSV whose Deployments were refused leaves phase Failed only if
// they would now be accepted. Of many Deployments, it applies a part.
func (r *Reconciler) probe(ctx context.Context, s *scope) error {
	dry := deployment.Installer{Account: s.acting.Dry(), Facts: r.Client, IsOver: s.turn.isLong}
	_, err := dry.Install(ctx, s.owner, s.deployments)
	if kit.Is[*deployment.Unfinished](err) {
		return nil
	}
	return err
}

// install writes the Deployments as the account.
func (r *Reconciler) install(ctx context.Context, s *scope) error {
	deed := warrant.Install
	if s.facts.renews() {
		deed = warrant.Renew
	}
	account, err := s.writer(deed)
	if err != nil {
		return err
	}
	installer := deployment.Installer{
		Account: account, Facts: r.Client,
		Before: func(ctx context.Context, d *appsv1.Deployment, try func(context.Context) error) error {
			return r.switchOff(ctx, s, account, d.Name, try)
		},
		Hold:   func(d *appsv1.Deployment) bool { return s.blockedBy == d.Name },
		IsOver: s.turn.isLong,
	}
	changed, err := installer.Install(ctx, s.owner, s.deployments)
	if len(changed) > 0 {
		log.FromContext(ctx).Info("Installed Deployments", "changes", changed, "account", s.account.Key().String())
	}
	return err
}

// switchOff disables the webhooks that a Deployment serves before the Deployment changes, because its Pods may not
// respond during the change. try sends the change as a dry run.
func (r *Reconciler) switchOff(ctx context.Context, s *scope, account client.Client, name string, try func(context.Context) error) error {
	changed, err := r.installer(s, account).Off(ctx, s.hooks, s.live, name, try)
	if len(changed) > 0 {
		log.FromContext(ctx).Info("Disabled webhooks before changing a Deployment", "deployment", name, "changes", changed)
	}
	return err
}
