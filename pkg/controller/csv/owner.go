package csv

import (
	"encoding/json"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// isCopy says whether this is a copy that tells another namespace of an operator. A copy is never
// live. The annotations that OLM looks at besides are not taken: bundles ship CSVs with them.
func isCopy(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	_, copied := csv.Labels[names.LabelCopiedFrom]
	return copied || csv.Status.Reason == operatorsv1alpha1.CSVReasonCopied
}

// ownerOf is whose marks the CSV's objects carry. The package is the one of which the lineage label,
// that the InstallPlan set, is the mark; candidates come from the Subscription, the component label
// and the bundle's properties. A CSV that a person made without a Subscription is a lineage of its
// own, by the part of its name that stays the same from version to version.
func ownerOf(csv *operatorsv1alpha1.ClusterServiceVersion, sub *operatorsv1alpha1.Subscription) ownerutil.Owner {
	lineage := func(pkg string) ownerutil.Lineage { return ownerutil.Lineage{Package: pkg, Namespace: csv.Namespace} }
	owner := ownerutil.Owner{Lineage: lineage(nameWithoutVersion(csv.Name)), CSV: csv.Name, UID: csv.UID}
	for _, pkg := range packages(csv, sub) {
		if lineage(pkg).Mark() == csv.Labels[names.LabelLineage] {
			owner.Lineage = lineage(pkg)
		}
	}
	return owner
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
	// Whatever is not of this form has no package to tell.
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
