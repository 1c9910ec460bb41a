package mutants

// copies returns the mutants of the rules for copied ClusterServiceVersions (docs/adr/0053).
func copies() []Mutant {
	const dir = "pkg/controller/copiedcsv"
	return []Mutant{
		{
			Name: "copies-where-the-account-may-not-create", Rule: 1, File: dir + "/targets.go",
			Old:    `Resources: []string{"clusterserviceversions"}, Verbs: []string{"create"},`,
			New:    `Resources: []string{"clusterserviceversions"}, Verbs: []string{},`,
			Killer: unit(dir, "TestCopiesOnlyWhereTheAccountMayCreate"),
		},
		{
			Name: "copies-of-others-deleted", Rule: 7, File: dir + "/pass.go",
			Old:    "found.DeletionTimestamp != nil || !p.r.isOwnCopy(found) {",
			New:    "found.DeletionTimestamp != nil {",
			Killer: unit(dir, "TestNeverChangesWhatItDidNotCreate"),
		},
		{
			Name: "copies-of-others-overwritten", Rule: 7, File: dir + "/pass.go",
			Old:    "case found.Labels[names.LabelCopiedFrom] != p.want.key.Namespace || !p.r.isOwnCopy(found):",
			New:    "case found.Labels[names.LabelCopiedFrom] != p.want.key.Namespace:",
			Killer: unit(dir, "TestNeverChangesWhatItDidNotCreate"),
		},
		{
			Name: "copies-of-copies", Rule: 3, File: dir + "/targets.go",
			Old:    "csv.DeletionTimestamp != nil || r.isOwnCopy(csv):",
			New:    "csv.DeletionTimestamp != nil:",
			Killer: unit(dir, "TestACopyIsNeverASource"),
		},
		{
			Name: "a-group-in-the-cache-suffices-for-copies", Rule: 1, File: dir + "/pass.go",
			Old:    "	if account != p.want.account ||",
			New:    "	if false && account != p.want.account ||",
			Killer: unit(dir, "TestConfirmsTheGroupBeforeAWrite"),
		},
		{
			Name: "instructions-to-other-programs-copied", Rule: 3, File: dir + "/content.go",
			Old:    "return !bundle.ForDisplay(key)",
			New:    "return false && !bundle.ForDisplay(key)",
			Killer: unit(dir, "TestCopiesIntoTheTargets"),
		},
		{
			Name: "a-copy-without-its-label-is-installed", Rule: 3, File: "pkg/controller/csv/copies.go",
			Old:    "	return isCopy(csv) || r.IsCopy != nil && r.IsCopy(csv)",
			New:    "	return isCopy(csv)",
			Killer: unit("pkg/controller/csv", "TestTheGroupAndTheContentAreCheckedFirst"),
		},
		{
			Name: "copies-wait-for-finalizers-of-others", Rule: 6, File: "pkg/controller/csv/copies.go",
			Old:    "obj.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(obj, names.FinalizerCSV)",
			New:    "obj.GetDeletionTimestamp() != nil && (controllerutil.ContainsFinalizer(obj, names.FinalizerCSV) || len(obj.GetFinalizers()) > 0)",
			Killer: unit("pkg/controller/csv", "TestACopyIsFinalizedByItsMetadata"),
		},
		{
			Name: "copies-are-read-to-be-finalized", Rule: 8, File: "pkg/controller/csv/copies.go",
			Old:    "	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(labeled), live); err != nil {",
			New:    "	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(labeled), csv); err != nil {",
			Killer: unit("pkg/controller/csv", "TestACopyIsFinalizedByItsMetadata"),
		},
		{
			Name: "metadata-of-copies-of-any-size", Rule: 8, File: "pkg/controller/kit/copies.go",
			Old:    "ok && len(value) <= maxValue {",
			New:    "ok {",
			Killer: unit("pkg/controller/kit", "TestTheCacheOfCopiesContainsNoDescriptions"),
		},
	}
}
