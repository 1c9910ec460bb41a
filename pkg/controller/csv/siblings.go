package csv

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// siblings are the live ClusterServiceVersions of a namespace that may replace one another, by name.
type siblings map[string]*operatorsv1alpha1.ClusterServiceVersion

// gatherSiblings finds the Subscription that brought the CSV, and its place among the versions of its
// lineage.
func (r *Reconciler) gatherSiblings(ctx context.Context, s *scope) error {
	subs := &operatorsv1alpha1.SubscriptionList{}
	if err := r.client.List(ctx, subs, client.InNamespace(s.csv.Namespace)); err != nil {
		return fmt.Errorf("list Subscriptions of namespace %q: %w", s.csv.Namespace, err)
	}
	s.subscription = subscriptionOf(s.csv, subs.Items)
	s.owner = ownerOf(s.csv, s.subscription)
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.client.List(ctx, list, client.InNamespace(s.csv.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ClusterServiceVersions of namespace %q: %w", s.csv.Namespace, err)
	}
	s.siblings = siblings{}
	for i := range list.Items {
		c := &list.Items[i]
		if c.UID != s.csv.UID && !isCopy(c) && related(s, c, subs.Items) {
			s.siblings[c.Name] = c
		}
	}
	if err := r.dropPretenders(ctx, s); err != nil {
		return err
	}
	s.facts.ReplacedBy, s.facts.Replaced = s.siblings.replacing(s.csv)
	older := s.siblings[s.csv.Spec.Replaces]
	if older != nil {
		s.facts.Older = older.Name
	}
	if s.csv.Status.Phase == phaseNone || s.csv.Status.Phase == phasePending {
		s.facts.Waits = waitsFor(s, older)
	}
	return nil
}

// waitsFor says who is to be done before a CSV is installed. The plan that brings it makes the same objects
// as this controller would, and is about to.
func waitsFor(s *scope, older *operatorsv1alpha1.ClusterServiceVersion) string {
	if older != nil && !steppedBack(older) {
		return fmt.Sprintf("ClusterServiceVersion %s has not stepped back yet", older.Name)
	}
	sub := s.subscription
	if sub == nil || sub.Status.CurrentCSV != s.csv.Name || sub.Status.InstallPlanRef == nil {
		return ""
	}
	pending := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionInstallPlanPending)
	if pending.Status != corev1.ConditionTrue || pending.Reason == string(operatorsv1alpha1.InstallPlanPhaseRequiresApproval) {
		return ""
	}
	return fmt.Sprintf("InstallPlan %s is being carried out", sub.Status.InstallPlanRef.Name)
}

func subscriptionOf(csv *operatorsv1alpha1.ClusterServiceVersion, subs []operatorsv1alpha1.Subscription) *operatorsv1alpha1.Subscription {
	var found *operatorsv1alpha1.Subscription
	for i := range subs {
		if st := subs[i].Status; st.InstalledCSV == csv.Name || st.CurrentCSV == csv.Name {
			found = &subs[i]
		}
	}
	return found
}

// related says whether one of the two may replace the other: a bundle of one package does not get rid of
// another's operator by naming it. What people make by hand, without the mark of a lineage, they may
// name as they like.
func related(s *scope, c *operatorsv1alpha1.ClusterServiceVersion, subs []operatorsv1alpha1.Subscription) bool {
	if s.csv.Labels[names.LabelLineage] == "" && c.Labels[names.LabelLineage] == "" {
		return true
	}
	return ownerOf(c, subscriptionOf(c, subs)).Lineage == s.owner.Lineage
}

// dropPretenders leaves out what is not a version of the lineage whose mark it carries: whoever may create a
// CSV may put a mark on it, and would have the account remove what they may not remove themselves (escape
// suite 77). Only where there is something to replace does this ask the API server.
func (r *Reconciler) dropPretenders(ctx context.Context, s *scope) error {
	if len(s.siblings) == 0 || s.csv.Labels[names.LabelLineage] == "" {
		return nil
	}
	for name, c := range s.siblings {
		ok, err := r.mayReplace(ctx, c)
		if err != nil {
			return err
		}
		if !ok {
			delete(s.siblings, name)
		}
	}
	ok, err := r.mayReplace(ctx, s.csv)
	if err == nil && !ok {
		clear(s.siblings)
	}
	return err
}

// mayReplace says whether the CSV replaces nothing, or an install has applied it.
func (r *Reconciler) mayReplace(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) (bool, error) {
	if csv.Spec.Replaces == "" {
		return true, nil
	}
	live := r.reference(csv)
	if err := r.lookup.Reader.Get(ctx, client.ObjectKeyFromObject(csv), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return apply.Applied(live), nil
}

// replacing names the CSV that replaces this one, the first by name where several do, and says whether
// one that came after it has succeeded: it, or another that replaced it in turn. One that is being
// deleted counts only if that is because it was replaced itself.
func (all siblings) replacing(csv *operatorsv1alpha1.ClusterServiceVersion) (next string, succeeded bool) {
	seen := map[string]bool{csv.Name: true}
	for queue := []string{csv.Name}; len(queue) > 0; queue = queue[1:] {
		for _, c := range all.thatReplace(queue[0]) {
			if seen[c.Name] {
				continue
			}
			seen[c.Name] = true
			next = cmp.Or(next, c.Name)
			queue = append(queue, c.Name)
			succeeded = succeeded || c.Status.Phase == phaseSucceeded && c.DeletionTimestamp == nil
		}
	}
	return next, succeeded
}

func (all siblings) thatReplace(name string) []*operatorsv1alpha1.ClusterServiceVersion {
	var out []*operatorsv1alpha1.ClusterServiceVersion
	for _, c := range all {
		if c.Spec.Replaces == name && (c.DeletionTimestamp == nil || c.Status.Phase == phaseDeleting) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *operatorsv1alpha1.ClusterServiceVersion) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// isBefore says whether name is one of the versions that led to this CSV, as far as they still exist.
func (all siblings) isBefore(name string, csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	seen := map[string]bool{csv.Name: true}
	for older := csv.Spec.Replaces; older != "" && !seen[older]; {
		if older == name {
			return true
		}
		seen[older] = true
		c := all[older]
		if c == nil {
			return false
		}
		older = c.Spec.Replaces
	}
	return false
}

// byOwner finds the CSV that an object's owner label means.
func (all siblings) byOwner(label string) *operatorsv1alpha1.ClusterServiceVersion {
	for _, c := range all {
		if ownerutil.LabelValue(c.Name) == label {
			return c
		}
	}
	return nil
}

// steppedBack says that a CSV leaves the field to the one that replaces it.
func steppedBack(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Phase == phaseReplacing || csv.Status.Phase == phaseDeleting || csv.DeletionTimestamp != nil
}

// neighbours wakes the CSV that this one replaces, and those that replace it.
func (r *Reconciler) neighbours(ctx context.Context, obj client.Object) []reconcile.Request {
	csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion)
	if !ok {
		return nil
	}
	return append(request(csv.Namespace, csv.Spec.Replaces),
		r.matching(ctx, func(c *operatorsv1alpha1.ClusterServiceVersion) bool { return c.Spec.Replaces == csv.Name },
			client.InNamespace(csv.Namespace))...)
}
