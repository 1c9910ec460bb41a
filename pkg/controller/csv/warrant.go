package csv

import (
	"context"
	"errors"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// findings returns what this reconcile has found, as input for package warrant. The findings do not depend on the CSV's
// status, labels or annotations.
func (f Facts) findings() warrant.Findings {
	out := warrant.Findings{
		Ineligible: f.unfit(), Excess: f.Excess, Exceeds: f.Exceeds, Unconfirmed: f.Unconfirmed, Intercepts: f.Intercepts, Prepared: f.Prepared, Unsynced: f.Unsynced,
		Evaluated: f.Evaluated, Unmet: f.Unmet, Refused: f.Refused,
		Same: f.Same, Ready: f.Deployments.Ready && !f.Calls.Missing,
		Obsolete: f.Obsolete || f.ReplacedBy != "" && f.Replaced,
	}
	if f.Account != nil { // there is a client to guard only if the OperatorGroup is being deleted
		out.GroupDeleted = f.Account
	}
	return out
}

// unfit returns the reason why the CSV is not allowed to run in its namespace, regardless of the account, or nil if
// there is none.
func (f Facts) unfit() error {
	if t := eligible.failing(f); t != nil {
		return errors.New(t.Message)
	}
	if f.ReplacedBy != "" {
		return errors.New(beingReplaced(f))
	}
	return nil
}

// installs reports whether the CSV's Deployments may be written from the current spec.
func (f Facts) installs() bool {
	return f.findings().Err(warrant.Install) == nil || f.renews()
}

// renews reports whether the Deployments may be written only to roll out a new certificate. Certificate rotation
// continues even if the operator could no longer be installed.
func (f Facts) renews() bool {
	return f.Rolling && f.Refused == nil && f.findings().Err(warrant.Renew) == nil
}

// writer returns the account's client, or an error if this reconcile's findings do not allow the operation.
func (s *scope) writer(d warrant.Operation) (client.Client, error) {
	return s.acting.For(d, s.facts.findings())
}

// judge completes the evaluation once the requirements have been gathered. It checks that the account may write the
// Deployments and run them as their ServiceAccounts, and determines whether the existing Deployments match the spec,
// apart from certificates.
func (r *Reconciler) judge(ctx context.Context, s *scope) error {
	asItRuns, err := s.desired(func(name string, pod *corev1.PodTemplateSpec) {
		if hash := s.live.Running(name); hash != "" {
			serving.Mount(pod, name, hash)
		}
	})
	if err != nil {
		return err
	}
	running, err := deployment.Check(ctx, r.Client, s.owner, asItRuns)
	if err != nil {
		return err
	}
	s.facts.Same = running.Installed
	if !s.acting.Known() {
		return nil
	}
	if err := r.refused(ctx, s); err != nil {
		return err
	}
	s.facts.Evaluated = true
	return nil
}

// runs reports whether all Deployments of a version exist, belong to it and are available. It does not use the
// version's status, because users may have written it.
func (r *Reconciler) runs(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) bool {
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range specs {
		d := &appsv1.Deployment{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: specs[i].Name}, d)
		if err != nil || !deployment.Of(d, owner) || !deployment.Status(d, specs[i].Spec.Replicas).Ready {
			return false
		}
	}
	return true
}

// refused records in the facts why the Deployments are not allowed to run as their ServiceAccounts, or why the account
// is not allowed to write them.
func (r *Reconciler) refused(ctx context.Context, s *scope) error {
	var objs []*unstructured.Unstructured
	for _, d := range s.deployments {
		obj, err := apply.Object(d)
		if err != nil {
			return err
		}
		objs = append(objs, obj)
	}
	made := func(name string) (time.Time, bool) {
		at, ok := s.made[name]
		return at, ok
	}
	err := deployment.CheckIdentities(s.csv, deployment.Bound{
		Account: s.account.Identity(), Made: made, Owner: s.owner, RBAC: r.RBAC, Log: log.FromContext(ctx), Program: names.UserAgentOLM,
		Unchanged: s.facts.Same, Confirm: func(found []excess.Object) ([]excess.Object, error) {
			return r.confirmer.Exceeding(ctx, client.ObjectKeyFromObject(s.csv).String()+" "+forIdentity, s.account.Identity(), found)
		},
	})
	if err == nil {
		err = joinMissing(r.missingPermissions(ctx, s, forInstall, objs), s.uncalled)
	}
	if isMissingPermissions(err) || kit.Is[*deployment.IdentityError](err) {
		s.facts.Refused = err
		s.facts.Notes = append(s.facts.Notes, noteExceeds+summary(err))
		return nil
	}
	return err
}
