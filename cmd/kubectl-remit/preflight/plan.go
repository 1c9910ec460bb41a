package preflight

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
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
	if a.steps, err = source.PlanSteps(plan); err != nil {
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
