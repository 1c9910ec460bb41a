package subscription

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// findings caches data that is derived from a world, so that each plan is decoded once and each lineage mark is verified
// once, regardless of the number of Subscriptions.
type findings struct {
	// marked contains all ClusterServiceVersions, keyed by their unverified lineage marks. owned contains the verified
	// ClusterServiceVersions, keyed by package.
	marked map[string][]*operatorsv1alpha1.ClusterServiceVersion
	owned  map[string][]*operatorsv1alpha1.ClusterServiceVersion
	// asked contains the packages of all Subscriptions as keys. The value is true if a user created one of the
	// package's Subscriptions and that Subscription is not being deleted.
	asked map[string]bool
	// planned contains the newest plan for each Subscription, keyed by the Subscription's UID.
	planned map[types.UID]planned
	// byContent contains the newest plan with each content, keyed by contentOf.
	byContent map[string]*operatorsv1alpha1.InstallPlan
	// names contains the names of the plans, and writes those of the versions that the plans of existing Subscriptions install. Plans
	// that Remit did not create and those that are being deleted do not count.
	names, writes map[string]bool
}

// planned is a plan for a Subscription, and the Subscription's pin in the plan. The zero value means that there is
// none.
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
		asked: map[string]bool{}, planned: map[types.UID]planned{}, byContent: map[string]*operatorsv1alpha1.InstallPlan{},
		names: map[string]bool{}, writes: map[string]bool{},
	}
	for i := range w.csvs {
		mark := names.ShortMark(w.csvs[i].Labels[names.LabelLineage])
		w.found.marked[mark] = append(w.found.marked[mark], &w.csvs[i])
	}
	for i := range w.subscriptions {
		if sub := &w.subscriptions[i]; sub.Spec != nil {
			userCreated := sub.DeletionTimestamp == nil && sub.Annotations[names.AnnotationGeneratedBy] == ""
			w.found.asked[sub.Spec.Package] = w.found.asked[sub.Spec.Package] || userCreated
		}
	}
	for i := range w.plans {
		w.found.readPlan(&w.plans[i])
	}
	for i := range w.subscriptions {
		if made := w.found.planned[w.subscriptions[i].UID]; made.plan != nil {
			w.found.writes[made.pin.Bundle] = true
		}
	}
	return w.found
}

// readPlan records a plan for each of its Subscriptions if there is no newer one. It uses the content that the plan's
// name commits to.
func (f *findings) readPlan(ip *operatorsv1alpha1.InstallPlan) {
	plan, err := resolver.Decode(ip.Namespace, ip.Name, ip.Annotations[names.AnnotationPlan])
	if err != nil {
		return
	}
	content := plan.Following("").Name()
	if newest := f.byContent[content]; newest == nil || resolver.CompareAge(newest, ip) < 0 {
		f.byContent[content] = ip
	}
	if ip.DeletionTimestamp != nil {
		return
	}
	f.names[ip.Name] = true
	for i := range plan.Pins {
		pin := &plan.Pins[i]
		if newest := f.planned[pin.SubscriptionUID].plan; newest == nil || resolver.CompareAge(newest, ip) < 0 {
			f.planned[pin.SubscriptionUID] = planned{ip, pin}
		}
	}
}

// contentOf identifies what a plan installs, regardless of the plans that it follows. It is "" for a plan that Remit did
// not create.
func contentOf(ip *operatorsv1alpha1.InstallPlan) string {
	plan, err := resolver.Decode(ip.Namespace, ip.Name, ip.Annotations[names.AnnotationPlan])
	if err != nil {
		return ""
	}
	return plan.Following("").Name()
}

// latestOf returns the newest plan that installs the same content, or nil if there is none.
func (w *world) latestOf(plan resolver.Plan) *operatorsv1alpha1.InstallPlan {
	return w.findings().byContent[plan.Following("").Name()]
}

// planOf returns the newest plan for a Subscription, or the zero value if there is none.
func (w *world) planOf(sub *operatorsv1alpha1.Subscription) planned {
	return w.findings().planned[sub.UID]
}

// ownedBy returns the ClusterServiceVersions that belong to the lineage of a package.
func (w *world) ownedBy(pkg string) []*operatorsv1alpha1.ClusterServiceVersion {
	f := w.findings()
	if owned, ok := f.owned[pkg]; ok {
		return owned
	}
	owner := w.owner(pkg)
	var owned []*operatorsv1alpha1.ClusterServiceVersion
	for _, csv := range f.marked[owner.ShortMark()] {
		if owner.Owns(csv) {
			owned = append(owned, csv)
		}
	}
	f.owned[pkg] = owned
	return owned
}

// installedFor returns the newest CSV of the Subscription's package, or nil. All Subscriptions to a package share this
// CSV.
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

// newer reports whether a CSV is newer than another CSV of its lineage. Creation times can be equal, so it compares
// spec.replaces first.
func newer(a, b *operatorsv1alpha1.ClusterServiceVersion) bool {
	if a.Spec.Replaces == b.Name || b.Spec.Replaces == a.Name {
		return a.Spec.Replaces == b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// subscribedCSVs returns the CSVs, including replaced ones, that belong to the lineage of a package that has a
// Subscription.
func (w *world) subscribedCSVs() map[*operatorsv1alpha1.ClusterServiceVersion]bool {
	out := map[*operatorsv1alpha1.ClusterServiceVersion]bool{}
	for pkg := range w.findings().asked {
		for _, csv := range w.ownedBy(pkg) {
			out[csv] = true
		}
	}
	return out
}

// isDuplicate reports whether a Subscription was created for a dependency although a user has also created a
// Subscription to the same package. The user's Subscription takes precedence.
func (w *world) isDuplicate(sub *operatorsv1alpha1.Subscription) bool {
	return sub.Annotations[names.AnnotationGeneratedBy] != "" && w.findings().asked[sub.Spec.Package]
}
