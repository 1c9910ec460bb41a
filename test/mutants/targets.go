package mutants

// targets returns the mutants of the rule that a user of one target affects only that target.
func targets() []Mutant {
	const test = "TestACollisionInATargetAffectsOnlyThisTarget"
	return []Mutant{
		{
			Name: "one-target-holds-back-plans", File: "pkg/step/execute/targets.go",
			Old:    "occupied[of(*s)] = true",
			New:    "occupied[of(*s)] = false",
			Killer: unit("pkg/controller/installplan", test),
		},
		{
			Name: "finalizers-in-a-target-hold-back-plans", File: "pkg/step/execute/targets.go",
			Old:    "return delayed || apply.IsCollision(err)",
			New:    "return delayed && apply.IsCollision(err) || apply.IsCollision(err)",
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
	}
}
