package subscription

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// findings are what is asked of a world for each Subscription, found out once: each plan is decoded and each mark is checked
// one time, however many Subscriptions there are.
type findings struct {
	// marked are the ClusterServiceVersions by the mark that they carry, which proves nothing; owned those of a package.
	marked map[string][]*operatorsv1alpha1.ClusterServiceVersion
	owned  map[string][]*operatorsv1alpha1.ClusterServiceVersion
	// asked are the packages of the Subscriptions: true where one of them is a person's and stays.
	asked map[string]bool
	// planned are the newest plans by the UID of a Subscription.
	planned map[types.UID]planned
}

// planned is a plan that was made for a Subscription, with what it makes of that. The zero value is none.
type planned struct {
	plan *operatorsv1alpha1.InstallPlan
	pin  *resolver.Pin
}

func (w *world) findings() *findings {
	if w.found != nil {
		return w.found
	}
	w.found = &findings{
		marked: map[string][]*operatorsv1alpha1.ClusterServiceVersion{}, owned: map[string][]*operatorsv1alpha1.ClusterServiceVersion{},
		asked: map[string]bool{}, planned: map[types.UID]planned{},
	}
	for i := range w.csvs {
		mark := w.csvs[i].Labels[names.LabelLineage]
		w.found.marked[mark] = append(w.found.marked[mark], &w.csvs[i])
	}
	for i := range w.subscriptions {
		if sub := &w.subscriptions[i]; sub.Spec != nil {
			persons := sub.DeletionTimestamp == nil && sub.Annotations[names.AnnotationGeneratedBy] == ""
			w.found.asked[sub.Spec.Package] = w.found.asked[sub.Spec.Package] || persons
		}
	}
	for i := range w.plans {
		w.found.readPlan(&w.plans[i])
	}
	return w.found
}

// readPlan notes for whom a plan was made, by what its name commits to.
func (f *findings) readPlan(ip *operatorsv1alpha1.InstallPlan) {
	if ip.DeletionTimestamp != nil {
		return
	}
	plan, err := resolver.Decode(ip.Namespace, ip.Name, ip.Annotations[names.AnnotationPlan])
	if err != nil {
		return
	}
	for i := range plan.Pins {
		pin := &plan.Pins[i]
		if newest := f.planned[pin.SubscriptionUID].plan; newest == nil || newest.Spec.Generation < ip.Spec.Generation {
			f.planned[pin.SubscriptionUID] = planned{ip, pin}
		}
	}
}

// planOf is the newest plan that was made for the Subscription.
func (w *world) planOf(sub *operatorsv1alpha1.Subscription) planned {
	return w.findings().planned[sub.UID]
}

// ownedBy are the ClusterServiceVersions of the lineage of a package.
func (w *world) ownedBy(pkg string) []*operatorsv1alpha1.ClusterServiceVersion {
	f := w.findings()
	if owned, ok := f.owned[pkg]; ok {
		return owned
	}
	owner := w.owner(pkg)
	var owned []*operatorsv1alpha1.ClusterServiceVersion
	for _, csv := range f.marked[owner.Mark()] {
		if owner.Owns(csv) {
			owned = append(owned, csv)
		}
	}
	f.owned[pkg] = owned
	return owned
}

// installedFor is the CSV of the Subscription's package in its namespace. Where a Subscription with
// the same package stands beside it, both see the same one.
func (w *world) installedFor(sub *operatorsv1alpha1.Subscription) *operatorsv1alpha1.ClusterServiceVersion {
	var newest *operatorsv1alpha1.ClusterServiceVersion
	for _, csv := range w.ownedBy(sub.Spec.Package) {
		if csv.Labels[names.LabelCopiedFrom] != "" || csv.DeletionTimestamp != nil {
			continue
		}
		if newest == nil || newer(csv, newest) {
			newest = csv
		}
	}
	return newest
}

// newer says whether a CSV came after another of its lineage. Several may be of one second.
func newer(a, b *operatorsv1alpha1.ClusterServiceVersion) bool {
	if a.Spec.Replaces == b.Name || b.Spec.Replaces == a.Name {
		return a.Spec.Replaces == b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// brought are the CSVs that are of the lineage of a Subscription: that one speaks for them, and for what they have replaced.
func (w *world) brought() map[*operatorsv1alpha1.ClusterServiceVersion]bool {
	out := map[*operatorsv1alpha1.ClusterServiceVersion]bool{}
	for pkg := range w.findings().asked {
		for _, csv := range w.ownedBy(pkg) {
			out[csv] = true
		}
	}
	return out
}

// madeBeside says that a Subscription was made for what others need, and a person's for the same package stands
// beside it: that one counts.
func (w *world) madeBeside(sub *operatorsv1alpha1.Subscription) bool {
	return sub.Annotations[names.AnnotationGeneratedBy] != "" && w.findings().asked[sub.Spec.Package]
}
