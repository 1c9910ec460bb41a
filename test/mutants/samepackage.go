package mutants

// samePackage returns the mutants of the rules for requirements within one package.
func samePackage() []Mutant {
	return []Mutant{
		{
			Name: "a-bundle-does-not-meet-its-own-requirement", Rule: 0, File: "pkg/resolver/samepackage.go",
			Old:    "	first := slices.IndexFunc(asked, selfMet)",
			New:    "	first := slices.IndexFunc(asked[:0], selfMet)",
			Killer: unit("pkg/resolver", "TestABundleMeetsItsOwnRequirements"),
		},
		{
			Name: "every-requirement-counts-as-met", Rule: 0, File: "pkg/resolver/samepackage.go",
			Old:    "m.Spend(r.cost) == nil && r.match(m, f) }",
			New:    "m.Spend(r.cost) == nil }",
			Killer: unit("pkg/resolver", "TestNoDependencyIsMetByAnotherVersionOfTheSamePackage"),
		},
		{
			Name: "two-versions-of-a-package-by-preference", Rule: 0, File: "pkg/resolver/greedy.go",
			Old:    "	if o.pkg != \"\" && clashes(o, t.packages[o.pkg]) {",
			New:    "	if o.pkg == \"\" && clashes(o, t.packages[o.pkg]) {",
			Killer: unit("pkg/resolver", "TestNoDependencyIsMetByAnotherVersionOfTheSamePackage"),
		},
		{
			Name: "two-versions-of-a-package-by-the-solver", Rule: 0, File: "pkg/resolver/problem.go",
			Old:    "		p.atMostOne(byPackage[pkg], &note{pkg: pkg})",
			New:    "		p.atMostOne(byPackage[pkg][:1], &note{pkg: pkg})",
			Killer: unit("pkg/resolver", "TestNoDependencyIsMetByAnotherVersionOfTheSamePackage"),
		},
	}
}
