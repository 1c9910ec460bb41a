package installplan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
)

// tryDeployments sends the Deployments of the plan's ClusterServiceVersions as a dry run, so that their refusals are
// reported together with those of the other objects. It sends at most deployment.MaxWritten: the csv controller writes the
// others, a part in each reconcile, and reports their refusals.
func (s *run) tryDeployments(ctx context.Context) error {
	dry, isNew := client.NewDryRunClient(s.executor.Account), s.isNew()
	s.deployments = map[string]*unstructured.Unstructured{}
	for _, st := range s.steps {
		if !st.IsCSV() {
			continue
		}
		deployments, err := s.deploymentsOf(ctx, st)
		if err != nil {
			return err
		}
		for _, d := range deployments[:min(len(deployments), deployment.MaxWritten-len(s.deployments))] {
			if err := s.checkTurn(); err != nil {
				return err
			}
			if isNew && apply.WouldCreate(ctx, dry, d, st.Owner) {
				s.deployments[apply.Describe(d)] = nil
				continue
			}
			live, answer := s.executor.Live(ctx, d)
			if errors.Is(answer, errTurn) {
				return answer
			}
			if answer == nil {
				s.deployments[apply.Describe(d)] = live
				_, _, answer = apply.From(ctx, dry, live, d, st.Owner)
			}
			if apply.IsFieldConflict(answer) {
				s.findings.RefuseConflict(apply.Describe(d), deployment.WithRemedy(answer, d))
				continue
			}
			if _, err := s.findings.AddDryRun(apply.Describe(d), answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// deploymentsOf renders the Deployments of one ClusterServiceVersion. They have no owner references, because the
// ClusterServiceVersion has no UID yet.
func (s *run) deploymentsOf(ctx context.Context, st step.Step) ([]*unstructured.Unstructured, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := apply.Decode(st.Object, csv); err != nil {
		return nil, err
	}
	wanted, err := s.render(ctx, csv, st.Owner)
	if kit.Is[*unrenderable](err) {
		s.refuse(st, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, d := range wanted {
		obj, err := apply.Object(d)
		if err != nil {
			return nil, err
		}
		obj.SetOwnerReferences(nil)
		out = append(out, obj)
	}
	return out, nil
}

// unrenderable is a rendering error that only the author of the bundle can fix.
type unrenderable struct{ error }

// render renders the Deployments of a ClusterServiceVersion as the csv controller does.
func (s *run) render(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) ([]*appsv1.Deployment, error) {
	in := deployment.Input{CSV: csv, Owner: owner, Group: deployment.GroupAnnotations(s.group.Name, csv.Namespace, s.targets)}
	var err error
	if in.Config, err = s.configOf(ctx, csv.Name); err != nil {
		return nil, err
	}
	in.Pods = certificates(csv, in.Config)
	wanted, err := deployment.Desired(in)
	if err != nil {
		return nil, &unrenderable{err}
	}
	return wanted, nil
}

// unissued is a placeholder for the hash of a CA that the csv controller has not created yet.
const unissued = "unissued"

// certificates returns a function that mounts certificates into the Pods of Deployments that serve webhooks or APIs, as
// the csv controller does. The mounts are needed because containers may refer to these volumes although the bundle does
// not define them. If the Subscription's config names a certificate tool that is not allowed, the csv controller
// reports it.
func certificates(csv *operatorsv1alpha1.ClusterServiceVersion, config *operatorsv1alpha1.SubscriptionConfig) func(string, *corev1.PodTemplateSpec) {
	served := serving.Served(csv)
	hash := unissued
	if tool, err := serving.ToolOf(csv, config); err == nil && tool != nil {
		hash = ""
	}
	return func(name string, pod *corev1.PodTemplateSpec) {
		if slices.ContainsFunc(served, func(d serving.Deployment) bool { return d.Name == name }) {
			serving.Mount(pod, name, hash)
		}
	}
}

// configure adds the Subscriptions' configs to the steps that write the plan's ClusterServiceVersions.
func (s *run) configure(ctx context.Context) error {
	for _, st := range s.steps {
		if st.Install == nil {
			continue
		}
		var err error
		if st.Install.Config, err = s.configOf(ctx, st.Object.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// configOf returns the config of the Subscription that a ClusterServiceVersion of the plan is installed for, or nil if
// the Subscription has no config or does not exist.
func (s *run) configOf(ctx context.Context, csv string) (*operatorsv1alpha1.SubscriptionConfig, error) {
	for _, p := range s.content.Pins {
		if p.Bundle != csv {
			continue
		}
		sub := &operatorsv1alpha1.Subscription{}
		exists, err := apply.Read(ctx, s.reconciler.Client, client.ObjectKey{Namespace: s.plan.Namespace, Name: p.Subscription}, sub)
		if err != nil {
			return nil, err
		}
		if err := budget.Refused(sub); err != nil {
			return nil, &unrenderable{fmt.Errorf("Subscription %s, with the config of the Deployments: %w", p.Subscription, err)}
		}
		if exists && sub.Spec != nil {
			return sub.Spec.Config, nil
		}
	}
	return nil, nil
}
