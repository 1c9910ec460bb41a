package csv

import (
	"context"
	"errors"
	"fmt"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step/build"
)

// gatherGroup finds the OperatorGroup and its targets in the cache, and records problems with them in the facts. The
// guarded client verifies the OperatorGroup against the API server before it writes.
func (r *Reconciler) gatherGroup(ctx context.Context, s *scope) error {
	group, err := r.Default.Lookup(r.Client).OperatorGroup(ctx, s.csv.Namespace)
	switch reason := scoped.ReasonOf(err); {
	case reason == scoped.NoOperatorGroup:
		// The cache may be outdated, and the status of a CSV that OLM manages must not change.
		left, err := r.Default.Lookup(r.Live).LeavesToOLM(ctx, s.csv.Namespace)
		s.leftToOLM, s.facts.Group = left, &Problem{reasonNoOperatorGroup, messageNoGroup}
		return err
	case reason == scoped.TooManyOperatorGroups:
		s.facts.Group = &Problem{reasonTooManyGroups, messageTooManyGroups}
		return nil
	case err != nil:
		return err
	}
	s.group = group
	s.facts.Forward = group.UpgradeStrategy() == operatorsv1.UpgradeStrategyUnsafeFailForward
	if _, err := scoped.Selector(group); err != nil {
		s.facts.Group = &Problem{reasonNoTargets, messageNoTargets + ": " + err.Error()}
		return nil
	}
	s.targets, err = r.Default.Lookup(r.Client).Targets(ctx, group, preflight.NamespaceFilter{RBAC: r.RBAC, Ask: r.confirmer.Ask})
	switch {
	case scoped.ReasonOf(err) != "":
		s.facts.Group = &Problem{reasonNoTargets, messageNoTargets + ": " + err.Error()}
	case err != nil:
		return err
	default:
		s.facts.Group = supported(s.csv, s.targets)
	}
	return nil
}

func supported(csv *operatorsv1alpha1.ClusterServiceVersion, targets []string) *Problem {
	if len(targets) == 0 {
		return &Problem{reasonNoTargets, messageNoTargets}
	}
	modes, err := operatorsv1alpha1.NewInstallModeSet(csv.Spec.InstallModes)
	if err != nil {
		return &Problem{reasonInvalidModes, err.Error()}
	}
	if err := modes.Supports(csv.Namespace, targets); err != nil {
		return &Problem{reasonUnsupportedGroup, err.Error()}
	}
	return nil
}

// gatherStrategy validates the CSV's content and renders its Deployments.
func (r *Reconciler) gatherStrategy(s *scope) {
	if s.facts.Strategy = s.tooLarge(); s.facts.Strategy != nil {
		return
	}
	s.facts.Strategy = errors.Join(bundle.ValidateCSV(s.csv), build.CheckScopes(s.csv, s.csv.Namespace, s.targets))
	if !s.runnable() {
		return
	}
	if s.facts.Webhooks, s.facts.APIs = hooks.Validate(s.csv, s.config()); !s.runnable() {
		return
	}
	s.deployments, s.facts.Strategy = s.desired(nil)
	s.facts.Notes = append(s.facts.Notes, deployment.LeftOut(s.csv, s.config())...)
}

// desired renders the Deployments. If pods is not nil, it can modify their Pod templates.
func (s *scope) desired(pods func(string, *corev1.PodTemplateSpec)) ([]*appsv1.Deployment, error) {
	return deployment.Desired(deployment.Input{CSV: s.csv, Owner: s.owner, Group: deployment.GroupAnnotations(s.group.Name, s.csv.Namespace, s.targets), Config: s.config(), Pods: pods})
}

// gatherAccount finds the account in the cache and opens a client that acts as the account. It records in the facts why
// an account cannot be used, or why nothing may be installed as the account. The client verifies the account against the API
// server before it writes.
func (r *Reconciler) gatherAccount(ctx context.Context, s *scope) error {
	account, err := r.Default.Lookup(r.Client).AccountOf(ctx, s.group)
	if err == nil {
		s.account = account
		err = r.openClient(s)
	}
	if err == nil {
		err = scoped.CheckNotDeleted(s.group) // the client can still remove objects
	}
	if errors.As(err, &s.facts.Account) {
		s.facts.Notes = append(s.facts.Notes, fmt.Sprintf("%s: %s", s.facts.Account.Reason, summary(s.facts.Account)))
		return nil
	}
	return err
}

func (r *Reconciler) openClient(s *scope) error {
	if err := r.trackPermissions(s); err != nil {
		return err
	}
	if err := r.Enrollment.Own(r.RBAC, s.account); err != nil {
		return err
	}
	own, err := r.Accounts.Open(s.account)
	if err != nil {
		return err
	}
	s.acting = warrant.Of(&guarded{Client: own, mint: r.clientFor, lookup: r.Default.Lookup(r.Live), cached: r.Client, namespace: s.csv.Namespace,
		account: s.account, deleted: s.group.DeletionTimestamp != nil})
	return nil
}

// clientFor opens a client that acts as the account. If the API server refuses the token, clientFor also checks the
// enrollment in the cache, so that a change to the enrollment wakes the CSV. If the account is enrolled according to
// the cache, the API server has not observed the enrollment yet, and clientFor returns an error that causes a retry.
func (r *Reconciler) clientFor(ctx context.Context, account scoped.Account) (client.Client, error) {
	own, err := r.Accounts.For(ctx, account)
	if scoped.ReasonOf(err) != scoped.AccountNotEnrolled {
		return own, err
	}
	if err := r.Enrollment.Own(r.RBAC, account); err != nil {
		return nil, err
	}
	//nolint:errorlint // err is not wrapped: its reason would mean waiting for an enrollment, but this is to be retried
	return nil, fmt.Errorf("the API server has not observed the account's enrollment yet: %s", err)
}

// live returns a Lookup that reads from the API server.
func (r *Reconciler) live() scoped.Lookup {
	return scoped.Lookup{Reader: r.Live, Default: r.Default, Live: true}
}
