package installplan

import (
	"context"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

const (
	// keptPlans is how many of the newest InstallPlans, by generation, are kept in a namespace. prunedPlans is the maximum
	// number that one run removes (OLM v0 contract).
	keptPlans   = 5
	prunedPlans = 5
)

// prune removes old finished plans as the account. If the account is not allowed to delete them, they are kept. Installed objects
// do not depend on old plans, and a failure does not affect the current plan.
func (s *run) prune(ctx context.Context) {
	list := &operatorsv1alpha1.InstallPlanList{}
	if err := s.reconciler.Client.List(ctx, list, client.InNamespace(s.plan.Namespace)); err != nil {
		return
	}
	old := surplus(list.Items, s.plan.UID)
	if len(old) == 0 || !s.mayPrune() {
		return
	}
	for _, ip := range old {
		err := s.executor.Account.Delete(ctx, ip, client.Preconditions{UID: &ip.UID, ResourceVersion: &ip.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			log.FromContext(ctx).Info("Keeping an old InstallPlan", "InstallPlan", ip.Name, "reason", err.Error())
			return
		}
		log.FromContext(ctx).Info("Removed an old InstallPlan", "InstallPlan", ip.Name, "account", s.account.Key().String())
	}
}

func (s *run) mayPrune() bool {
	rule := rbacv1.PolicyRule{APIGroups: []string{operatorsv1alpha1.GroupName}, Resources: []string{"installplans"}, Verbs: []string{"delete"}}
	return s.permissionsIn(s.plan.Namespace).Set().Covers([]rbacv1.PolicyRule{rule})
}

// surplus returns the oldest finished plans that exceed keptPlans, at most prunedPlans of them. It never returns the
// current plan, which is about to complete, or the newest plan of a Subscription.
func surplus(all []operatorsv1alpha1.InstallPlan, current types.UID) []*operatorsv1alpha1.InstallPlan {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b operatorsv1alpha1.InstallPlan) int { return resolver.CompareAge(&b, &a) })
	var out []*operatorsv1alpha1.InstallPlan
	seen := map[types.UID]bool{}
	for i := range sorted {
		ip := &sorted[i]
		if newest := newestOf(ip, seen); !newest && i >= keptPlans && finished(ip) && ip.UID != current && ip.DeletionTimestamp == nil {
			out = append(out, ip)
		}
	}
	slices.Reverse(out)
	return out[:min(len(out), prunedPlans)]
}

// newestOf reports whether the plan is the newest of one of its Subscriptions, and adds its Subscriptions to seen. seen
// contains the Subscriptions of all newer plans.
func newestOf(ip *operatorsv1alpha1.InstallPlan, seen map[types.UID]bool) bool {
	plan, err := resolver.Decode(ip.Namespace, ip.Name, ip.Annotations[names.AnnotationPlan])
	if err != nil {
		return false
	}
	newest := false
	for _, pin := range plan.Pins {
		newest = newest || !seen[pin.SubscriptionUID]
		seen[pin.SubscriptionUID] = true
	}
	return newest
}
