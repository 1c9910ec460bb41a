package subscription

import (
	"context"
	"fmt"
	"math"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
)

// maxAnnotations is the maximum total size, in bytes, of the annotations that Remit writes to a plan. The API server
// allows 256 KiB; the remaining bytes are left for users.
const maxAnnotations = 240 << 10

// ensurePlan returns the InstallPlan of a resolution. If the plan does not exist, ensurePlan creates it; if the plan is
// spent or was deleted, ensurePlan creates a follow-up. If another replica, or this replica before a crash, has already
// created the plan, there is no conflict, because the plan's name identifies what it installs.
func (r *Reconciler) ensurePlan(ctx context.Context, w *world, subs []*operatorsv1alpha1.Subscription, plan resolver.Plan) (*operatorsv1alpha1.InstallPlan, error) {
	next := plan
	if latest := w.latestOf(plan); latest != nil {
		if isSpent, err := r.isSpent(ctx, w, latest, plan); err != nil || !isSpent {
			return latest, err
		}
		next = plan.Following(latest.Name)
	}
	for _, name := range w.absentPlans(subs) {
		live, err := r.livePlan(ctx, w, name)
		switch {
		case err != nil:
			return nil, err
		case live == nil:
			next = plan.Following(name)
		case contentOf(live) == plan.Following("").Name():
			return live, nil
		}
	}
	return r.createPlan(ctx, w, desiredPlan(w, subs, next), next)
}

// absentPlans returns the names of the plans that the current statuses of Subscriptions refer to but that the cache does
// not contain. The given Subscriptions may be outdated, because they are part of an answer.
func (w *world) absentPlans(subs []*operatorsv1alpha1.Subscription) []string {
	var out []string
	for i := range w.subscriptions {
		current := &w.subscriptions[i]
		ref := current.Status.InstallPlanRef
		concerned := slices.ContainsFunc(subs, func(sub *operatorsv1alpha1.Subscription) bool { return sub.UID == current.UID })
		if concerned && ref != nil && w.planNamed(ref.Name) == nil {
			out = append(out, ref.Name)
		}
	}
	return out
}

// livePlan reads the plan that a Subscription's status refers to, because the cache may show the status before it shows
// the plan. It returns nil if the plan was deleted: as in OLM, the next plan then has a new name. Any user may have
// written the status, so it determines only this name.
func (r *Reconciler) livePlan(ctx context.Context, w *world, name string) (*operatorsv1alpha1.InstallPlan, error) {
	ip := &operatorsv1alpha1.InstallPlan{}
	exists, err := apply.Read(ctx, r.Live, client.ObjectKey{Namespace: w.namespace, Name: name}, ip)
	if err != nil || !exists {
		return nil, err
	}
	return ip, nil
}

// keep adds the content of the bundles to a new plan if it fits, so that users can see what they approve. Remit's
// controllers do not read this copy (docs/adr/0040).
func keep(ctx context.Context, w *world, ip *operatorsv1alpha1.InstallPlan, plan resolver.Plan) error {
	text, err := w.input.Keep(ctx, plan, maxAnnotations-len(ip.Annotations[names.AnnotationPlan]))
	if err != nil || text == "" {
		return err
	}
	ip.Annotations[names.AnnotationContent] = text
	return nil
}

func (w *world) planNamed(name string) *operatorsv1alpha1.InstallPlan {
	for i := range w.plans {
		if w.plans[i].Name == name {
			return &w.plans[i]
		}
	}
	return nil
}

func (r *Reconciler) createPlan(ctx context.Context, w *world, ip *operatorsv1alpha1.InstallPlan, plan resolver.Plan) (*operatorsv1alpha1.InstallPlan, error) {
	if err := keep(ctx, w, ip, plan); err != nil {
		return nil, err
	}
	if err := r.Client.Create(ctx, ip); err != nil {
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create InstallPlan %s: %w", ip.Name, err)
		}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(ip), ip); err != nil {
			return nil, fmt.Errorf("get InstallPlan %s: %w", ip.Name, err)
		}
		return ip, nil
	}
	log.FromContext(ctx).Info("Created InstallPlan", "InstallPlan", client.ObjectKeyFromObject(ip).String(),
		"bundles", ip.Spec.ClusterServiceVersionNames)
	w.plans = append(w.plans, *ip)
	return ip, nil
}

// desiredPlan returns the InstallPlan for a resolution. The given Subscriptions own the plan, and it requires approval
// if any of these Subscriptions requires it.
func desiredPlan(w *world, subs []*operatorsv1alpha1.Subscription, plan resolver.Plan) *operatorsv1alpha1.InstallPlan {
	labels := map[string]string{}
	for _, pin := range plan.Pins {
		labels[ownerutil.Lineage{Package: pin.Package, Namespace: w.namespace}.ComponentLabel()] = ""
	}
	approval := strictest(subs)
	return &operatorsv1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{
			Name:            plan.Name(),
			Namespace:       w.namespace,
			Labels:          labels,
			Annotations:     map[string]string{names.AnnotationPlan: plan.Encode()},
			OwnerReferences: owners(subs),
		},
		Spec: operatorsv1alpha1.InstallPlanSpec{
			CatalogSource:              plan.Pins[0].Catalog,
			CatalogSourceNamespace:     plan.Pins[0].CatalogNamespace,
			ClusterServiceVersionNames: plan.CSVNames(),
			Approval:                   approval,
			Approved:                   approval == operatorsv1alpha1.ApprovalAutomatic,
			Generation:                 w.nextGeneration(),
		},
	}
}

func owners(subs []*operatorsv1alpha1.Subscription) []metav1.OwnerReference {
	var out []metav1.OwnerReference
	for _, sub := range subs {
		out = append(out, ownerutil.Reference(operatorsv1alpha1.SubscriptionCRDAPIVersion, operatorsv1alpha1.SubscriptionKind, sub.Name, sub.UID))
	}
	return out
}

// nextGeneration returns the generation of a new plan, which is one more than the highest generation of the namespace's
// plans (OLM v0 contract).
func (w *world) nextGeneration() int {
	highest := 0
	for i := range w.plans {
		highest = max(highest, w.plans[i].Spec.Generation)
	}
	return min(highest, math.MaxInt-1) + 1
}
