package preflight

import (
	"context"
	"encoding/json"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// aboutObject is about an InstallPlan, or about that of a Subscription.
func (o *Options) aboutObject(ctx context.Context, obj client.Object, name string) (*about, error) {
	if o.RBACDir != "" {
		return nil, fmt.Errorf("--rbac-dir is for bundles: %T %q is in a cluster", obj, name)
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return nil, err
	}
	a := &about{namespace: o.Namespace}
	if a.namespace == "" {
		if a.namespace, err = o.Cluster.Namespace(); err != nil {
			return nil, err
		}
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, obj); err != nil {
		return nil, err
	}
	plan, ok := obj.(*operatorsv1alpha1.InstallPlan)
	if sub, isSub := obj.(*operatorsv1alpha1.Subscription); isSub {
		plan, err = planOf(ctx, c, sub)
	} else if !ok {
		err = fmt.Errorf("%T is not known", obj)
	}
	if err != nil {
		return nil, err
	}
	a.what = "InstallPlan " + plan.Name
	if err := o.findAccount(ctx, c, a); err != nil {
		return nil, err
	}
	if a.steps, err = shownSteps(plan); err != nil {
		return nil, err
	}
	return a, o.findRights(ctx, c, a)
}

func planOf(ctx context.Context, c client.Client, sub *operatorsv1alpha1.Subscription) (*operatorsv1alpha1.InstallPlan, error) {
	ref := sub.Status.InstallPlanRef
	if ref == nil {
		if failed := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed); failed.Message != "" {
			return nil, fmt.Errorf("Subscription %s/%s has no InstallPlan: %s: %s", sub.Namespace, sub.Name, failed.Reason, failed.Message)
		}
		return nil, fmt.Errorf("Subscription %s/%s has no InstallPlan yet", sub.Namespace, sub.Name)
	}
	plan := &operatorsv1alpha1.InstallPlan{}
	return plan, c.Get(ctx, client.ObjectKey{Namespace: sub.Namespace, Name: ref.Name}, plan)
}

// shownSteps are the steps that the plan's status shows.
func shownSteps(plan *operatorsv1alpha1.InstallPlan) ([]step.Step, error) {
	content, err := resolver.Decode(plan.Namespace, plan.Name, plan.Annotations[names.AnnotationPlan])
	if err != nil {
		return nil, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	packages := map[string]string{}
	for _, pin := range content.Pins {
		packages[pin.Bundle] = pin.Package
	}
	if len(plan.Status.Plan) == 0 {
		return nil, fmt.Errorf("InstallPlan %s shows no steps yet: %s", plan.Name, plan.Status.Message)
	}
	var out []step.Step
	for _, shown := range plan.Status.Plan {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(shown.Resource.Manifest), &obj.Object); err != nil || obj.GetKind() == "" {
			return nil, errNotShown(plan)
		}
		out = append(out, step.Step{Object: obj, Owner: ownerutil.Owner{
			Lineage: ownerutil.Lineage{Package: packages[shown.Resolving], Namespace: plan.Namespace}, CSV: shown.Resolving,
		}})
	}
	return out, nil
}

func errNotShown(plan *operatorsv1alpha1.InstallPlan) error {
	return fmt.Errorf("InstallPlan %s is too large to show its steps: run this for the bundle itself", plan.Name)
}
