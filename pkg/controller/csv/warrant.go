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

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// findings are what this look has found, for the keeper of the account's client. The status of the CSV, its labels
// and its annotations have no part in them.
func (f Facts) findings() warrant.Findings {
	return warrant.Findings{
		Ineligible: f.unfit(), Excess: asError(f.Excess), Prepared: f.Prepared, Unsynced: f.Unsynced,
		Evaluated: f.Evaluated, Unmet: f.Unmet, Refused: f.Refused,
		Same: f.Same, Ready: f.Deployments.Ready && !f.Calls.Missing,
		Obsolete: f.Obsolete || f.ReplacedBy != "" && f.Replaced,
	}
}

// unfit says why the CSV may not run here, whoever installs it.
func (f Facts) unfit() error {
	if t, wrong := cannotRun(f); wrong {
		return errors.New(t.Message)
	}
	if f.ReplacedBy != "" {
		return errors.New(beingReplaced(f))
	}
	return nil
}

// asError keeps a nil pointer from becoming an error.
func asError(e *LacksError) error {
	if e == nil {
		return nil
	}
	return e
}

// installs says whether the CSV's Deployments may be written as they are to be.
func (f Facts) installs() bool {
	return f.findings().Err(warrant.Install) == nil || f.renews()
}

// renews says that Deployments are only rolled, for another certificate: what runs goes on even where it would not be
// installed any more (security model, D4).
func (f Facts) renews() bool {
	return f.Rolling && f.Refused == nil && f.findings().Err(warrant.Renew) == nil
}

// writer gives out the account's client for what this look's findings allow.
func (s *scope) writer(d warrant.Operation) (client.Client, error) {
	return s.acting.For(d, s.facts.findings())
}

// judge ends the full check: once the requirements are known, it holds the identities that the Deployments run as,
// and the rights that writing them takes, against the account. It sees, too, whether what runs is just what the
// spec has, apart from certificates.
func (r *Reconciler) judge(ctx context.Context, s *scope) error {
	asItRuns, err := s.desired(func(name string, pod *corev1.PodTemplateSpec) {
		if hash := s.live.Running(name); hash != "" {
			serving.Mount(pod, name, hash)
		}
	})
	if err != nil {
		return err
	}
	running, err := deployment.Check(ctx, r.client, s.owner, asItRuns)
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

// runs says whether all Deployments of a version are there, its own and available: what its status says is for anyone
// to write.
func (r *Reconciler) runs(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) bool {
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range specs {
		d := &appsv1.Deployment{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: specs[i].Name}, d)
		if err != nil || !deployment.Of(d, owner) || !deployment.Status(d, specs[i].Spec.Replicas).Ready {
			return false
		}
	}
	return true
}

// refused says whether the Deployments may run as whom they name, and be written.
func (r *Reconciler) refused(ctx context.Context, s *scope) error {
	var objs []*unstructured.Unstructured
	for _, d := range s.deployments {
		obj, err := deployment.Object(d)
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
		Account: s.account.Key(), Made: made, Owner: s.owner, RBAC: r.rbac, Log: log.FromContext(ctx),
	})
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
