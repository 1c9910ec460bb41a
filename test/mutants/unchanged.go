package mutants

// unchanged returns the mutants of what events of RBAC objects share.
func unchanged() []Mutant {
	const pkg, file = "pkg/rbac", "pkg/rbac/unchanged.go"
	return []Mutant{
		{
			Name: "each-event-has-rules-of-its-own", Rule: 8, File: file,
			Old:    "	if found && last.sum == received {",
			New:    "	if found && len(received) == 0 {",
			Killer: unit(pkg, "TestStatesOfAnObjectShareLongListsThatDoNotChange"),
		},
		{
			Name: "rules-never-change", Rule: 1, File: file,
			Old:    "	if found && last.sum == received {",
			New:    "	if found {",
			Killer: unit(pkg, "TestStatesOfAnObjectShareLongListsThatDoNotChange"),
		},
		{
			Name: "sums-ignore-where-texts-end", Rule: 1, File: file,
			Old:    "		s.number(len(text))\n",
			New:    "",
			Killer: unit(pkg, "TestDifferentListsHaveDifferentSums"),
		},
		{
			Name: "sums-ignore-where-lists-end", Rule: 1, File: file,
			Old:    "			s.number(len(list))\n",
			New:    "",
			Killer: unit(pkg, "TestDifferentListsHaveDifferentSums"),
		},
		{
			Name: "lists-of-deleted-objects-are-remembered", Rule: 8, File: file,
			Old:    "		if s.list() == nil {",
			New:    "		if s.list == nil {",
			Killer: unit(pkg, "TestListsOfDeletedObjectsAreNotKept"),
		},
		{
			Name: "caches-share-no-rules", Rule: 8, File: "pkg/controller/trim.go",
			Old:    "unchanged.Take(obj)",
			New:    "unchanged.Take(nil)",
			Killer: unit("pkg/controller", "TestEventsShareRulesThatDoNotChange"),
		},
		{
			Name: "changed-rules-wake-no-owner", Rule: 6, File: "pkg/controller/csv/wake.go",
			Old:    "equality.Semantic.DeepEqual(was, is) && rbac.SameContent(before, after)",
			New:    "equality.Semantic.DeepEqual(was, is)",
			Killer: unit("pkg/controller/csv", "TestChangesWakeTheAffectedCSVs"),
		},
		{
			Name: "changed-labels-wake-no-owner", Rule: 6, File: "pkg/controller/csv/wake.go",
			Old:    "equality.Semantic.DeepEqual(was, is) && rbac.SameContent(before, after)",
			New:    "rbac.SameContent(before, after)",
			Killer: unit("pkg/controller/csv", "TestChangesWakeTheAffectedCSVs"),
		},
	}
}
