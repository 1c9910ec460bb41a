package csv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/deployment"
)

// gatherDeployments says how the Deployments stand, and whether the account may write those that are
// not as they should be.
func (r *Reconciler) gatherDeployments(ctx context.Context, s *scope) error {
	if !s.runnable() {
		return nil
	}
	var err error
	if s.facts.Deployments, err = deployment.Check(ctx, r.client, s.owner, s.deployments); err != nil || s.client == nil {
		return err
	}
	if err := r.refused(ctx, s); err != nil {
		return err
	}
	if s.facts.Refused == nil && s.csv.Status.Phase == phaseFailed && s.csv.Status.Reason == reasonNoRetry {
		s.facts.Probe = r.probe(ctx, s)
	}
	return nil
}

func (r *Reconciler) refused(ctx context.Context, s *scope) error {
	var objs []*unstructured.Unstructured
	for _, d := range s.deployments {
		obj, err := deployment.Object(d)
		if err != nil {
			return err
		}
		objs = append(objs, obj)
	}
	err := deployment.CheckIdentities(s.csv, s.account.Key(), r.rbac)
	if err == nil {
		err = together(r.lacks(ctx, s, forInstall, objs), s.uncalled)
	}
	if asLacks(err) || asIdentity(err) {
		s.facts.Refused = err
		s.facts.Notes = append(s.facts.Notes, noteExceeds+oneLine(err))
		return nil
	}
	return err
}

// together makes one error of what is lacked for two things.
func together(a, b error) error {
	var one, other *LacksError
	if !errors.As(a, &one) || !errors.As(b, &other) {
		return cmp.Or(a, b)
	}
	missing := slices.Concat(one.Missing, other.Missing)
	slices.Sort(missing)
	return &LacksError{Account: one.Account, Missing: slices.Compact(missing)}
}

// probe sends the Deployments as a dry run, so that a CSV which was refused leaves Failed only when it
// would be taken.
func (r *Reconciler) probe(ctx context.Context, s *scope) error {
	dry := deployment.Installer{Account: client.NewDryRunClient(s.client), Facts: r.client}
	_, err := dry.Install(ctx, s.owner, s.deployments)
	return err
}

// install writes the Deployments as the account.
func (r *Reconciler) install(ctx context.Context, s *scope) error {
	if s.client == nil {
		return fmt.Errorf("install of %s without an account", client.ObjectKeyFromObject(s.csv))
	}
	installer := deployment.Installer{
		Account: s.client, Facts: r.client,
		Before: func(ctx context.Context, d *appsv1.Deployment) error { return r.switchOff(ctx, s, d.Name) },
		Hold:   func(d *appsv1.Deployment) bool { return s.held == d.Name },
	}
	changed, err := installer.Install(ctx, s.owner, s.deployments)
	if len(changed) > 0 {
		log.FromContext(ctx).Info("Installed", "changes", changed, "account", s.account.Key().String())
	}
	return err
}

// switchOff lets nobody call what a Deployment that is about to be changed will not answer.
func (r *Reconciler) switchOff(ctx context.Context, s *scope, name string) error {
	changed, err := r.installer(s).Off(ctx, s.hooks, s.live, name)
	if len(changed) > 0 {
		log.FromContext(ctx).Info("Switched off before a change", "deployment", name, "changes", changed)
	}
	return err
}
