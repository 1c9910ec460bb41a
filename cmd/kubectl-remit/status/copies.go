package status

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// setCSVs separates the ClusterServiceVersions from the copies that Remit makes in target namespaces, which are only counted. Users
// can set all marks of a copy except the status, and only Remit can verify the proof. Therefore, an object is a copy only if it has
// every mark, and the number of copies is always reported.
func (w *world) setCSVs(all []operatorsv1alpha1.ClusterServiceVersion) {
	w.csvs, w.copies = nil, map[string]int{}
	for i := range all {
		if isCopy(&all[i]) {
			w.copies[all[i].Namespace]++
		} else {
			w.csvs = append(w.csvs, all[i])
		}
	}
}

func isCopy(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	source := csv.Labels[names.LabelCopiedFrom]
	return source != "" && source != csv.Namespace && csv.Status.Reason == operatorsv1alpha1.CSVReasonCopied &&
		csv.Annotations[names.AnnotationProof] != "" && csv.Annotations[names.AnnotationCopyHash] != ""
}

// claim describes a ClusterServiceVersion that has the label of copies, but is not a copy that Remit made. It returns "" for others.
func claim(csv *operatorsv1alpha1.ClusterServiceVersion) string {
	source, labeled := csv.Labels[names.LabelCopiedFrom]
	if !labeled || isCopy(csv) {
		return ""
	}
	return fmt.Sprintf("claims to be a copy of a ClusterServiceVersion in namespace %q (label %s), but does not have the marks of a copy that Remit made: "+
		"if this version should be installed, delete it, and create it again without the label", source, names.LabelCopiedFrom)
}

// noteCopies reports the copies of a namespace.
func (w *world) noteCopies(g *Group) {
	if n := w.copies[g.Namespace]; n > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("%d ClusterServiceVersions are copies of versions in other namespaces. "+
			"To list them: kubectl get clusterserviceversions -n %s -l %s", n, g.Namespace, names.LabelCopiedFrom))
	}
}

// noteOtherCopies reports the copies in namespaces that are not part of the report.
func (w *world) noteOtherCopies(seen map[string]bool) {
	var copies, namespaces int
	for namespace, n := range w.copies {
		if !seen[namespace] {
			copies, namespaces = copies+n, namespaces+1
		}
	}
	if copies > 0 {
		w.note("%d ClusterServiceVersions in %d namespaces without OperatorGroups are copies of versions in other namespaces. "+
			"To list them: kubectl get clusterserviceversions -A -l %s", copies, namespaces, names.LabelCopiedFrom)
	}
}
