package mutants

// targets returns the mutants of the rule that a user of one target affects only that target.
func targets() []Mutant {
	const (
		test    = "TestACollisionInATargetAffectsOnlyThisTarget"
		refusal = "TestARefusalInATargetAffectsOnlyThisTarget"
	)
	return []Mutant{
		{
			Name: "one-target-holds-back-plans", File: "pkg/step/execute/targets.go",
			Old:    "occupied[of(*s)] = true",
			New:    "occupied[of(*s)] = false",
			Killer: unit("pkg/controller/installplan", test),
		},
		{
			Name: "finalizers-in-a-target-hold-back-plans", File: "pkg/step/execute/targets.go",
			Old:    "return delayed || refused || apply.IsCollision(err)",
			New:    "return delayed && refused || refused || apply.IsCollision(err)",
			Killer: unit("pkg/step/execute", "TestWhatAUserOfATargetCanOccupyIsSkipped"),
		},
		{
			Name: "collisions-at-home-are-skipped", File: "pkg/step/execute/targets.go",
			Old:    ` && obj.GetNamespace() != owner.Namespace`,
			New:    "",
			Killer: unit("pkg/controller/installplan", test),
		},
		{
			Name: "one-target-holds-back-csvs", File: "pkg/controller/csv/prepare.go",
			Old:    "if isForTarget && execute.Occupies(err) {",
			New:    "if false {",
			Killer: unit("pkg/controller/csv", test),
		},
		{
			Name: "a-quota-in-a-target-holds-back-csvs", File: "pkg/controller/csv/prepare.go",
			Old:    "isForTarget && refused != nil {",
			New:    "isForTarget && refused == err {",
			Killer: unit("pkg/controller/csv", refusal),
		},
		{
			Name: "a-quota-in-a-target-is-not-tried-again", File: "pkg/controller/csv/collisions.go",
			Old:    "	if isRechecked(why) {",
			New:    "	if isRechecked(why) && why == nil {",
			Killer: unit("pkg/controller/csv", refusal),
		},
		{
			Name: "a-quota-in-a-target-holds-back-plans", File: "pkg/controller/installplan/preflight.go",
			Old:    "	return preflight.AtAdmission(err)",
			New:    "	return nil",
			Killer: unit("pkg/controller/installplan", refusal),
		},
		{
			Name: "a-quota-after-the-dry-run-holds-back-plans", File: "pkg/controller/installplan/apply.go",
			Old:    "	if why == nil {\n		return done, err",
			New:    "	if why == nil || err != nil {\n		return done, err",
			Killer: unit("pkg/controller/installplan", refusal),
		},
		{
			Name: "undecided-permissions-occupy-a-target", File: "pkg/controller/installplan/preflight.go",
			Old:    "slices.ContainsFunc(s.findings.Unknown, isUndecided):",
			New:    "slices.ContainsFunc(s.findings.Unknown[:0], isUndecided):",
			Killer: unit("pkg/controller/installplan", "TestARefusalWhosePermissionsAreUndecidedOccupiesNoTarget"),
		},
		{
			Name: "missing-permissions-occupy-a-target", Rule: 3, File: "pkg/preflight/admission.go",
			Old:    "apply.IsCollision(err), lacksPermission(err):",
			New:    "apply.IsCollision(err), lacksPermission(err) && err == nil:",
			Killer: unit("pkg/preflight", "TestARefusalAtAdmissionIsNoMissingPermission"),
		},
		{
			Name: "webhooks-imitate-the-authorizer", File: "pkg/preflight/admission.go",
			Old:    `	if strings.HasPrefix(object, "admission webhook ") {`,
			New:    `	if strings.HasPrefix(object, "admission webhooks ") {`,
			Killer: unit("pkg/preflight", "TestARefusalAtAdmissionIsNoMissingPermission"),
		},
	}
}
