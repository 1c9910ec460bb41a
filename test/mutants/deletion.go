package mutants

// deletion returns the mutants of rule 6: deleting objects also requires authority.
func deletion() []Mutant {
	return []Mutant{
		{
			Name: "orphans-are-removed-by-their-labels", Rule: 6, File: "pkg/controller/csv/orphans.go",
			Old:    "		return proven, nil",
			New:    "		return true, nil",
			Killer: unit("pkg/controller/csv", "TestRemovesWhatADeletedCSVLeftBehind"),
		},
		{
			Name: "served-apis-are-removed-by-their-labels", Rule: 6, File: "pkg/controller/csv/orphans.go",
			Old: `	return r.isUnserved(ctx, s, api)
`,
			New: `	_, err := r.isUnserved(ctx, s, api)
	return true, err
`,
			Killer: unit("pkg/controller/csv", "TestRemovesWhatADeletedCSVLeftBehind"),
		},
		{
			Name: "conversions-of-orphans-are-reset-under-running-operators", Rule: 6, File: "pkg/controller/csv/orphans.go",
			Old: `		return r.isStopped(ctx, owner)
`,
			New: `		_, err := r.isStopped(ctx, owner)
		return true, err
`,
			Killer: unit("pkg/controller/csv", "TestRemovesWhatADeletedCSVLeftBehind"),
		},
		{
			Name: "conversion-of-others-is-reset", Rule: 6, File: "pkg/install/webhook/conversion.go",
			Old:    "return ok && service.Namespace == namespace && crd.Annotations[names.AnnotationConversion] == service.String()",
			New:    `return ok && service.Name != ""`,
			Killer: unit("pkg/install/hooks", "TestAConversionTakenOverByAnotherOwnerIsNotReset"),
		},
		{
			Name: "conversion-is-reset-while-the-operator-runs", Rule: 6, File: "pkg/controller/csv/finalize.go",
			Old:    "if s.running > 0 {",
			New:    "if s.running > 100 {",
			Killer: unit("pkg/controller/csv", "TestAConversionIsResetAfterTheOperatorHasStopped"),
		},
		{
			Name: "deployments-of-others-are-stopped", Rule: 6, File: "pkg/controller/csv/stop.go",
			Old:    "if !s.owner.Owns(d) || s.belongsToSibling(d) {",
			New:    "if s.belongsToSibling(d) {",
			Killer: unit("pkg/controller/csv", "TestAConversionIsResetAfterTheOperatorHasStopped"),
		},
		{
			Name: "a-conversion-waits-forever", Rule: 6, File: "pkg/controller/csv/stop.go",
			Old:    "	if left <= 0 {",
			New:    "	if false {",
			Killer: unit("pkg/controller/csv", "TestAConversionIsResetEvenIfTheOperatorDoesNotStop"),
		},
		{
			Name: "the-conversion-of-another-version-is-reset", Rule: 6, File: "pkg/controller/csv/finalize.go",
			Old:    "if s.csv.DeletionTimestamp == nil || !s.convertedBySibling(crd) {",
			New:    "if true {",
			Killer: unit("pkg/controller/csv", "TestAConversionOfAnotherVersionIsNotReset"),
		},
		{
			Name: "versions-of-another-lineage-are-replaced", Rule: 6, File: "pkg/controller/csv/siblings.go",
			Old:    "return other == s.owner.Lineage || other.Direct && s.owner.Direct",
			New:    "return other.Direct || true",
			Killer: unit("pkg/controller/csv", "TestOnlyVersionsOfALineageReplaceEachOther"),
		},
		{
			Name: "replaced-before-the-next-succeeded", Rule: 6, File: "pkg/controller/csv/siblings.go",
			Old:    "succeeded = succeeded || c.Status.Phase == phaseSucceeded && c.DeletionTimestamp == nil",
			New:    "succeeded = true",
			Killer: unit("pkg/controller/csv", "TestReplacing"),
		},
		{
			Name: "missing-objects-are-retried-in-a-terminating-namespace", Rule: 6, File: "pkg/controller/csv/finalize.go",
			Old: `	case scoped.ReasonOf(err) != "":
		return nil // no account is left that could remove them`,
			New: `	case false:
		return nil // no account is left that could remove them`,
			Killer: unit("pkg/controller/csv", "TestDetachWithoutAnAccountIsNotAnError"),
		},
		{
			Name: "fields-of-others-are-surplus", Rule: 6, File: "pkg/lib/apply/surplus.go",
			Old: `		if !ok || !hasFields(part, below) {
			return false`,
			New: `		if !ok || !hasFields(part, below) {
			return true`,
			Killer: unit("pkg/lib/apply", "TestSurplusFieldsAreThoseNoLongerDesired"),
		},
		{
			Name: "proofs-are-enough-to-remove", Rule: 6, File: "pkg/controller/csv/children.go",
			Old:    "== owner.Namespace && owner.Owns(obj) {",
			New:    "== owner.Namespace && owner.Marks(obj) {",
			Killer: row("86"),
		},
		{
			Name: "kept-objects-are-removed", Rule: 6, File: "pkg/install/warrant/warrant.go",
			Old:    "		if f.Obsolete {",
			New:    "		if true {",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
		{
			Name: "clients-without-a-check", Rule: 6, File: "pkg/install/warrant/warrant.go",
			Old:    "	if err := f.Err(d); err != nil {",
			New:    "	if err := f.Err(d); false {",
			Killer: unit("pkg/install/warrant", "TestForReturnsTheClientOnlyIfAllowed"),
		},
		{
			Name: "extensions-remove-what-the-inventory-lists", Rule: 6, File: "pkg/controller/clusterextension/prune.go",
			Old:    "	if why := s.owner.Check(live); why != nil {",
			New:    "	if why := s.owner.Check(live); false {",
			Killer: row("225"),
		},
		{
			Name: "extensions-leave-their-objects", Rule: 6, File: "pkg/extension/render/render.go",
			Old:    "			obj.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})",
			New:    "			_ = []metav1.OwnerReference{owner.Reference()}",
			Killer: row("228"),
		},
	}
}
