package csv

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// maxFollowers is the maximum number of later versions of a ClusterServiceVersion that are examined. An upgrade deletes
// the versions that it has replaced, so only manually created CSVs can exceed this limit. In this case, the oldest CSVs
// wait until some of the newer ones are deleted.
const maxFollowers = 100

// siblings contains the ClusterServiceVersions of a namespace that may replace one another and are not copies, keyed by
// name.
type siblings map[string]*operatorsv1alpha1.ClusterServiceVersion

// gatherSiblings finds the Subscription that installed the CSV, and the CSV's position among the versions of its
// lineage.
func (r *Reconciler) gatherSiblings(ctx context.Context, s *scope) error {
	subs := &operatorsv1alpha1.SubscriptionList{}
	if err := r.Client.List(ctx, subs, client.InNamespace(s.csv.Namespace)); err != nil {
		return fmt.Errorf("list Subscriptions in namespace %q: %w", s.csv.Namespace, err)
	}
	s.subscription = r.subscriptionOf(s.csv, subs.Items)
	s.owner = r.ownerOf(s.csv, s.subscription)
	s.owner.Since = s.namespace.CreationTimestamp.Time
	if s.owner.Doubt != "" {
		s.facts.Notes = append(s.facts.Notes, s.owner.Doubt)
	}
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.csv.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ClusterServiceVersions in namespace %q: %w", s.csv.Namespace, err)
	}
	s.siblings = siblings{}
	all := siblings{}
	for i := range list.Items {
		c := &list.Items[i]
		if c.UID == s.csv.UID || isCopy(c) {
			continue
		}
		all[c.Name] = c
		if r.related(s, c, subs.Items) {
			s.siblings[c.Name] = c
		}
	}
	s.facts.Contested = contested(s.csv, all, s.siblings)
	if s.owner.Direct {
		s.owner.Lineage = r.lineageOf(ctx, s.csv, all, subs.Items)
	}
	active, err := r.gatherHeldBack(ctx, s, subs.Items)
	if err != nil {
		return err
	}
	s.facts.ReplacedBy, s.facts.Replaced = active.replacing(s.csv, func(c *operatorsv1alpha1.ClusterServiceVersion) bool {
		return r.runs(ctx, c, r.ownerOf(c, r.subscriptionOf(c, subs.Items)))
	})
	older := s.siblings[s.csv.Spec.Replaces]
	if older != nil {
		s.facts.Older = older.Name
	}
	if s.csv.Status.Phase == phaseNone || s.csv.Status.Phase == phasePending {
		s.facts.Waits = waitsFor(s, older)
	}
	return nil
}

// contested describes an older CSV in the namespace that also owns one of csv's kinds, although neither replaces the
// other (OLM v0 contract). Both operators would reconcile the same objects. The age decides, so that a new CSV never
// affects an installed one.
func contested(csv *operatorsv1alpha1.ClusterServiceVersion, all, related siblings) string {
	owned := map[string]bool{}
	for _, d := range csv.Spec.CustomResourceDefinitions.Owned {
		owned[d.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		age := cmp.Or(c.CreationTimestamp.Compare(csv.CreationTimestamp.Time), cmp.Compare(c.Name, csv.Name))
		replaces := c.Name == csv.Spec.Replaces || c.Spec.Replaces == csv.Name
		if related[name] != nil || replaces || c.DeletionTimestamp != nil || age > 0 {
			continue
		}
		for _, d := range c.Spec.CustomResourceDefinitions.Owned {
			if owned[d.Name] {
				return fmt.Sprintf("ClusterServiceVersion %s owns CustomResourceDefinition %s", name, d.Name)
			}
		}
	}
	return ""
}

// waitsFor describes what a CSV waits for before it is installed, or returns "" if it does not wait. A CSV waits for
// its InstallPlan because the InstallPlan is about to create the objects that this controller would otherwise create.
func waitsFor(s *scope, older *operatorsv1alpha1.ClusterServiceVersion) string {
	if s.facts.HeldBack != "" {
		return s.facts.HeldBack
	}
	if older != nil && !isBeingReplaced(older) {
		return fmt.Sprintf("ClusterServiceVersion %s is not being replaced yet", older.Name)
	}
	sub := s.subscription
	if sub == nil || sub.Status.CurrentCSV != s.csv.Name || sub.Status.InstallPlanRef == nil {
		return ""
	}
	pending := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionInstallPlanPending)
	if pending.Status != corev1.ConditionTrue || pending.Reason == string(operatorsv1alpha1.InstallPlanPhaseRequiresApproval) {
		return ""
	}
	return fmt.Sprintf("InstallPlan %s is in progress", sub.Status.InstallPlanRef.Name)
}

// unsettled returns the remaining delay before the status of a new CSV is written, or 0 if it is written now. Only a CSV that
// waits for its InstallPlan or its Deployments is delayed, because most InstallPlans finish soon and most Deployments are available
// soon; problems are reported at once. If this program's clock differs from the API server's, the delay may be shorter.
func unsettled(f Facts, read *operatorsv1alpha1.ClusterServiceVersion, settling *kit.Settling) time.Duration {
	age := f.Now.Sub(read.CreationTimestamp.Time)
	waits := f.Waits != "" && f.HeldBack == "" && f.CSV.Status.Phase == phasePending || f.CSV.Status.Phase == phaseInstalling
	if !waits || read.Status.Phase != phaseNone || age < 0 {
		return 0
	}
	return max(0, settling.Time(read.Namespace)-age)
}

// subscriptionOf returns the Subscription that a CSV was installed for, or nil. The Subscription's status alone is not
// proof: the CSV's proof must name the package in the Subscription's spec.
func (r *Reconciler) subscriptionOf(csv *operatorsv1alpha1.ClusterServiceVersion, subs []operatorsv1alpha1.Subscription) *operatorsv1alpha1.Subscription {
	var found *operatorsv1alpha1.Subscription
	for i := range subs {
		st := subs[i].Status
		if st.InstalledCSV != csv.Name && st.CurrentCSV != csv.Name || subs[i].Spec == nil {
			continue
		}
		if owner := r.ownerOf(csv, &subs[i]); !owner.Lineage.Direct && owner.Lineage.Package == subs[i].Spec.Package {
			found = &subs[i]
		}
	}
	return found
}

// related reports whether the CSV and c may replace each other, which is only possible within a lineage. A bundle
// cannot remove the operator of another package by naming its CSV in spec.replaces, and a CSV that no InstallPlan
// created cannot remove one that an InstallPlan created (escape suite 77). Direct CSVs may replace each other
// regardless of their names.
func (r *Reconciler) related(s *scope, c *operatorsv1alpha1.ClusterServiceVersion, subs []operatorsv1alpha1.Subscription) bool {
	other := r.ownerOf(c, r.subscriptionOf(c, subs)).Lineage
	return other == s.owner.Lineage || other.Direct && s.owner.Direct
}

// replacing returns the name of the CSV that replaces csv (the first by name if there are several), and reports whether
// that CSV or one of its successors has succeeded. A CSV that is being deleted counts only if it was itself replaced.
// Any user may have written a status, so a reported success is verified by calling runs.
func (all siblings) replacing(csv *operatorsv1alpha1.ClusterServiceVersion, runs func(*operatorsv1alpha1.ClusterServiceVersion) bool) (next string, succeeded bool) {
	followers := all.followers()
	seen := map[string]bool{csv.Name: true}
	for queue := []string{csv.Name}; len(queue) > 0 && len(seen) <= maxFollowers; queue = queue[1:] {
		for _, c := range followers[queue[0]] {
			if seen[c.Name] {
				continue
			}
			seen[c.Name] = true
			next = cmp.Or(next, c.Name)
			queue = append(queue, c.Name)
			succeeded = succeeded || c.Status.Phase == phaseSucceeded && c.DeletionTimestamp == nil && runs(c)
		}
	}
	return next, succeeded
}

// followers returns the versions that replace another version, ordered by name. The keys are the names of the replaced
// versions.
func (all siblings) followers() map[string][]*operatorsv1alpha1.ClusterServiceVersion {
	out := map[string][]*operatorsv1alpha1.ClusterServiceVersion{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if c := all[name]; c.DeletionTimestamp == nil || c.Status.Phase == phaseDeleting {
			out[c.Spec.Replaces] = append(out[c.Spec.Replaces], c)
		}
	}
	return out
}

// isBefore reports whether name is an earlier version that csv replaces, directly or through other existing versions.
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

// byOwner returns the CSV that an owner label refers to, or nil.
func (all siblings) byOwner(label string) *operatorsv1alpha1.ClusterServiceVersion {
	for _, c := range all {
		if ownerutil.LabelValue(c.Name) == label {
			return c
		}
	}
	return nil
}

// isBeingReplaced reports whether a CSV is being replaced or deleted.
func isBeingReplaced(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Phase == phaseReplacing || csv.Status.Phase == phaseDeleting || csv.DeletionTimestamp != nil
}

// neighbors returns requests for the CSV that a changed CSV replaces, and for the CSVs that replace it.
func (r *Reconciler) neighbors(ctx context.Context, obj client.Object) []reconcile.Request {
	csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion)
	if !ok {
		return nil
	}
	return append(request(csv.Namespace, csv.Spec.Replaces), r.keyed(ctx, csv.Namespace, byReplaces+csv.Name, kit.Any, client.Limit(maxWoken))...)
}
