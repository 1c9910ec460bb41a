package csv

import (
	"encoding/json"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// isCopy reports whether a CSV is a copy, which only shows users of another namespace that an operator is available
// there. Remit does not install an operator for a copy. Only the label determines this; remit-csv-author-check controls
// who may set it. The status is not considered, because a user who is allowed to write it could hide an operator from
// all checks. The annotations that OLM uses are not considered either, because the CSVs in bundles may contain them.
func isCopy(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	_, copied := csv.Labels[names.LabelCopiedFrom]
	return copied
}

// ownerOf returns the owner of the CSV's objects. A CSV that an InstallPlan created belongs to the lineage that its
// proof names. The candidates for its package come from the Subscription, the component label and the bundle's
// properties. Any other CSV is direct, regardless of its labels: it forms a lineage with the CSVs whose names differ
// only in the version.
func (r *Reconciler) ownerOf(csv *operatorsv1alpha1.ClusterServiceVersion, sub *operatorsv1alpha1.Subscription) ownerutil.Owner {
	owner := ownerutil.Owner{CSV: csv.Name, UID: csv.UID, Proofs: r.Proofs}
	for _, pkg := range packages(csv, sub) {
		owner.Lineage = ownerutil.Lineage{Package: pkg, Namespace: csv.Namespace}
		if owner.Owns(csv) {
			return owner
		}
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
func directLineage(csv *operatorsv1alpha1.ClusterServiceVersion) ownerutil.Lineage {
	return ownerutil.Lineage{Package: nameWithoutVersion(csv.Name), Namespace: csv.Namespace, Direct: true}
}

func packages(csv *operatorsv1alpha1.ClusterServiceVersion, sub *operatorsv1alpha1.Subscription) []string {
	var out []string
	if sub != nil && sub.Spec != nil {
		out = append(out, sub.Spec.Package)
	}
	for key := range csv.Labels {
		if name, ok := strings.CutPrefix(key, names.LabelComponentPrefix); ok {
			out = append(out, strings.TrimSuffix(name, "."+csv.Namespace))
		}
	}
	var properties struct {
		Properties []struct {
			Type  string `json:"type"`
			Value struct {
				PackageName string `json:"packageName"`
			} `json:"value"`
		} `json:"properties"`
	}
	// Other content does not name a package.
	if json.Unmarshal([]byte(csv.Annotations[names.AnnotationProperties]), &properties) == nil {
		for _, p := range properties.Properties {
			if p.Type == "olm.package" {
				out = append(out, p.Value.PackageName)
			}
		}
	}
	return out
}

func nameWithoutVersion(name string) string {
	if i := strings.Index(name, ".v"); i > 0 {
		return name[:i]
	}
	return name
}
