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
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// findings returns the findings of this reconcile for package warrant. They do not depend on the CSV's status, labels
// or annotations.
func (f Facts) findings() warrant.Findings {
	return warrant.Findings{
		Ineligible: f.unfit(), Excess: f.Excess, Prepared: f.Prepared, Unsynced: f.Unsynced,
		Evaluated: f.Evaluated, Unmet: f.Unmet, Refused: f.Refused,
		Same: f.Same, Ready: f.Deployments.Ready && !f.Calls.Missing,
		Obsolete: f.Obsolete || f.ReplacedBy != "" && f.Replaced,
	}
}

// unfit returns the reason that the CSV may not run here, regardless of who installs it.
func (f Facts) unfit() error {
	if t := eligible.failing(f); t != nil {
		return errors.New(t.Message)
	}
	if f.ReplacedBy != "" {
		return errors.New(beingReplaced(f))
	}
	return nil
}

// installs reports whether the CSV's Deployments may be written as desired.
func (f Facts) installs() bool {
	return f.findings().Err(warrant.Install) == nil || f.renews()
}

// renews reports whether Deployments are only rolled for another certificate: this continues even if they would no
// longer be installed (security model, D4).
func (f Facts) renews() bool {
	return f.Rolling && f.Refused == nil && f.findings().Err(warrant.Renew) == nil
}

// writer returns the account's client if this reconcile's findings allow the operation.
func (s *scope) writer(d warrant.Operation) (client.Client, error) {
	return s.acting.For(d, s.facts.findings())
}

// judge completes the evaluation: when the requirements are known, it compares the identities of the Deployments, and
// the permissions for writing them, with the account. It also determines whether the running Deployments match the
// spec, apart from certificates.
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

// runs reports whether all Deployments of a version exist, belong to it and are available. Its status is not used,
// because users may have written it.
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

// refused records the reason that the Deployments may not run as their ServiceAccounts, or may not be written.
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
		Account: s.account.Key(), Made: made, Owner: s.owner, RBAC: r.RBAC, Log: log.FromContext(ctx),
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
