package csv

import (
	"encoding/json"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// isCopy reports whether this is a copy that informs another namespace of an operator. A copy is never live. Only the
// label counts, which remit-csv-author-check guards. The status does not count: a user with access to it could
// otherwise hide an operator from all checks. Nor do the annotations that OLM considers, because bundles contain CSVs
// with them.
func isCopy(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	_, copied := csv.Labels[names.LabelCopiedFrom]
	return copied
}

// ownerOf is the owner of the CSV's objects. A CSV that an InstallPlan created belongs to the lineage that its proof
// names; candidates come from the Subscription, the component label and the bundle's properties. Any other CSV is a
// direct one, whatever its labels say: it forms a lineage with CSVs that have the same name without the version.
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
	// Other content does not state a package.
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
