package installplan

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// tryDeployments sends, as a dry run, the Deployments that the csv controller will make of the plan's
// ClusterServiceVersions: what refuses them is told with all the rest.
func (s *run) tryDeployments(ctx context.Context) error {
	dry := client.NewDryRunClient(s.executor.Account)
	for _, st := range s.steps {
		if !st.IsCSV() {
			continue
		}
		deployments, err := s.deploymentsOf(ctx, st)
		if err != nil {
			return err
		}
		for _, d := range deployments {
			_, _, answer := apply.Ensure(ctx, dry, d, deployment.Ours(st.Owner))
			if _, err := s.findings.Judge(apply.Describe(d), answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// deploymentsOf renders the Deployments of one ClusterServiceVersion. It has no UID yet, and they no owner.
func (s *run) deploymentsOf(ctx context.Context, st step.Step) ([]*unstructured.Unstructured, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(st.Object.Object, csv); err != nil {
		return nil, fmt.Errorf("decode %s: %w", apply.Describe(st.Object), err)
	}
	in := deployment.Input{CSV: csv, Owner: st.Owner, Group: deployment.GroupAnnotations(s.group.Name, csv.Namespace, s.targets)}
	sub, err := s.subscriptionOf(ctx, csv.Name)
	if err != nil {
		return nil, err
	}
	if sub != nil && sub.Spec != nil {
		in.Config = sub.Spec.Config
	}
	wanted, err := deployment.Desired(in)
	if err != nil {
		s.refuse(st, err)
		return nil, nil
	}
	var out []*unstructured.Unstructured
	for _, d := range wanted {
		obj, err := deployment.Object(d)
		if err != nil {
			return nil, err
		}
		obj.SetOwnerReferences(nil)
		out = append(out, obj)
	}
	return out, nil
}

// configure gives the plan's ClusterServiceVersions the configs of their Subscriptions.
func (s *run) configure(ctx context.Context) error {
	for _, st := range s.steps {
		if st.Install == nil {
			continue
		}
		sub, err := s.subscriptionOf(ctx, st.Object.GetName())
		if err != nil {
			return err
		}
		if sub != nil && sub.Spec != nil {
			st.Install.Config = sub.Spec.Config
		}
	}
	return nil
}

// subscriptionOf is the Subscription that a ClusterServiceVersion of the plan is for; nil where it is gone.
func (s *run) subscriptionOf(ctx context.Context, csv string) (*operatorsv1alpha1.Subscription, error) {
	for _, p := range s.content.Pins {
		if p.Bundle != csv {
			continue
		}
		sub := &operatorsv1alpha1.Subscription{}
		err := s.reconciler.Client.Get(ctx, client.ObjectKey{Namespace: s.plan.Namespace, Name: p.Subscription}, sub)
		if err == nil {
			return sub, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get Subscription %s: %w", p.Subscription, err)
		}
	}
	return nil, nil
}
