package csv

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// isCopy reports whether a CSV is a copy, which only shows users of another namespace that an operator is available
// there. Remit does not install an operator for a copy. Only the label determines this; remit-csv-author-check controls
// who may set it. The status is not considered, because a user who is allowed to write it could hide an operator from
// all checks. The annotations that OLM uses are not considered either, because the CSVs in bundles may contain them.
func isCopy(csv client.Object) bool {
	_, copied := csv.GetLabels()[names.LabelCopiedFrom]
	return copied
}

// ownerOf returns the owner of the CSV's objects. A CSV that an InstallPlan created belongs to the lineage that its proof names.
// The candidates for its package come from the Subscription, the component label and the bundle's properties. Any other CSV is
// direct, regardless of its labels: it belongs to the lineage that it is proven to have inherited from the version that it
// replaced. If there is no such lineage, the CSV forms a lineage with the CSVs whose names differ only in the version.
func (r *Reconciler) ownerOf(csv *operatorsv1alpha1.ClusterServiceVersion, sub *operatorsv1alpha1.Subscription) ownerutil.Owner {
	owner := ownerutil.Owner{CSV: csv.Name, UID: csv.UID, Proofs: r.Proofs}
	for _, pkg := range r.named.packages(csv, sub) {
		owner.Lineage = ownerutil.Lineage{Package: pkg, Namespace: csv.Namespace}
		if owner.Owns(csv) {
			return owner
		}
	}
	if inherited, ok := r.inherited(csv); ok {
		owner.Lineage = inherited
		return owner
	}
	owner.Lineage = directLineage(csv)
	if mark := csv.Labels[names.LabelLineage]; mark != "" {
		if why := r.Proofs.Check(csv, mark); why != nil {
			owner.Doubt = fmt.Sprintf("no InstallPlan is known to have created ClusterServiceVersion %s: %v", csv.Name, why)
		}
	}
	return owner
}

// directLineage returns the lineage of a CSV that a user created directly.
func directLineage(csv client.Object) ownerutil.Lineage {
	return ownerutil.DirectLineage(csv.GetName(), csv.GetNamespace())
}

// inherited returns the lineage that a direct CSV inherited. The annotation only names it; the CSV's proof decides.
func (r *Reconciler) inherited(csv *operatorsv1alpha1.ClusterServiceVersion) (ownerutil.Lineage, bool) {
	lineage := ownerutil.Lineage{Package: csv.Annotations[names.AnnotationLineage], Namespace: csv.Namespace, Direct: true}
	return lineage, lineage.Package != "" && ownerutil.Owner{Lineage: lineage, Proofs: r.Proofs}.Owns(csv)
}

// lineageOf returns the lineage of a direct CSV: that of the version that it replaces, as long as that version exists in
// the namespace and is direct as well, or else its own. A CSV that has inherited a lineage or has installed a Deployment keeps
// its lineage, regardless of later changes to spec.replaces.
func (r *Reconciler) lineageOf(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, all siblings, subs []operatorsv1alpha1.Subscription) ownerutil.Lineage {
	lineage := directLineage(csv)
	seen := map[string]bool{}
	for c := csv; c != nil && !seen[c.Name] && len(seen) < maxFollowers; c = all[c.Spec.Replaces] {
		seen[c.Name] = true
		owner := r.ownerOf(c, r.subscriptionOf(c, subs))
		if !owner.Direct {
			break
		}
		lineage = owner.Lineage
		if _, ok := r.inherited(c); ok || owner.Doubt != "" || r.hasInstalled(ctx, c, owner) {
			break
		}
	}
	return lineage
}

// hasInstalled reports whether one of the CSV's Deployments exists and belongs to it.
func (r *Reconciler) hasInstalled(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) bool {
	return slices.ContainsFunc(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, func(d operatorsv1alpha1.StrategyDeploymentSpec) bool {
		live := &appsv1.Deployment{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: d.Name}, live)
		return err == nil && deployment.Of(live, owner)
	})
}

// hasBegun reports whether the CSV's install has written something in its namespace or the whole cluster: a Deployment, a role or a
// binding, which has a proof. All permissions of the CSV were then checked before.
func (r *Reconciler) hasBegun(ctx context.Context, s *scope) bool {
	if r.hasInstalled(ctx, s.csv, s.owner) {
		return true
	}
	made, err := r.children(ctx, s.owner)
	return err == nil && slices.ContainsFunc(made, func(o client.Object) bool { return !s.isElsewhere(o.GetNamespace()) })
}

// settleLineage adds the lineage that a direct CSV inherits, with a proof, so that the CSV keeps the lineage when the version
// that it replaces no longer exists. It must be called before objects of the lineage are written.
func (r *Reconciler) settleLineage(s *scope, after *metav1.PartialObjectMetadata) error {
	if !s.owner.Direct || s.owner.Lineage == directLineage(s.csv) {
		return nil
	}
	if _, ok := r.inherited(s.csv); ok {
		return nil
	}
	live := r.reference(s.csv)
	live.SetUID(s.csv.UID)
	live.SetCreationTimestamp(s.csv.CreationTimestamp)
	proven := live.DeepCopy()
	if err := s.owner.Prove(proven, live); err != nil {
		return fmt.Errorf("prove the lineage of ClusterServiceVersion %s/%s: %w", s.csv.Namespace, s.csv.Name, err)
	}
	if after.Labels == nil {
		after.Labels = map[string]string{}
	}
	after.Labels[names.LabelLineage] = s.owner.Mark()
	after.Annotations[names.AnnotationLineage] = s.owner.Package
	after.Annotations[names.AnnotationProof] = proven.GetAnnotations()[names.AnnotationProof]
	return nil
}

// maxPackages is the maximum number of packages that the labels of a CSV name, and that its properties name. A bundle has one.
const maxPackages = 100

// namedPackages remembers, during one reconcile, which packages the properties of CSVs name, by the text of the properties. Each
// can have 256 KiB, and the owner of each CSV of a namespace is asked for with each Subscription that names it. A nil pointer
// remembers nothing.
type namedPackages struct{ by map[string][]string }

// packages returns the packages that a CSV may belong to. The proof of the CSV decides.
func (n *namedPackages) packages(csv *operatorsv1alpha1.ClusterServiceVersion, sub *operatorsv1alpha1.Subscription) []string {
	var out []string
	if sub != nil && sub.Spec != nil {
		out = append(out, sub.Spec.Package)
	}
	var labeled []string
	for key := range csv.Labels {
		if name, ok := strings.CutPrefix(key, names.LabelComponentPrefix); ok {
			labeled = append(labeled, strings.TrimSuffix(name, "."+csv.Namespace))
		}
	}
	slices.Sort(labeled)
	return append(append(out, labeled[:min(len(labeled), maxPackages)]...), n.ofProperties(csv.Annotations[names.AnnotationProperties])...)
}

// ofProperties returns the packages that the text of an annotation names.
func (n *namedPackages) ofProperties(text string) []string {
	if text == "" {
		return nil
	}
	if n == nil {
		return packagesIn(text)
	}
	known, ok := n.by[text]
	if !ok {
		known = packagesIn(text)
		if n.by == nil {
			n.by = map[string][]string{}
		}
		n.by[text] = known
	}
	return known
}

func packagesIn(text string) (out []string) {
	var properties struct {
		Properties []struct {
			Type  string `json:"type"`
			Value struct {
				PackageName string `json:"packageName"`
			} `json:"value"`
		} `json:"properties"`
	}
	// Invalid JSON is ignored: such an annotation does not name a package.
	if json.Unmarshal([]byte(text), &properties) != nil {
		return nil
	}
	for _, p := range properties.Properties {
		if p.Type == "olm.package" && len(out) < maxPackages {
			out = append(out, p.Value.PackageName)
		}
	}
	return out
}
