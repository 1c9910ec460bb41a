package mutants

// levels returns the mutants of the limit on levels of lists and objects.
func levels() []Mutant {
	const pkg = "pkg/lib/decoding"
	return []Mutant{
		{
			Name: "objects-of-many-levels-are-decoded", Rule: 8, File: "pkg/lib/budget/structures.go",
			Old:    "	if HasMoreLevels(json, MaxLevels) {",
			New:    "	if false {",
			Killer: unit(pkg, "TestAnObjectOfManyLevelsAffectsOnlyItself"),
		},
		{
			Name: "strings-have-levels", Rule: 8, File: "pkg/lib/budget/structures.go",
			Old:    "			rest = rest[lengthOfString(rest):]",
			New:    "			rest = rest[min(1, len(rest)):]",
			Killer: unit("pkg/lib/budget", "TestCountsLevelsOutsideOfStrings"),
		},
		{
			Name: "managed-fields-of-many-levels-are-decoded", Rule: 8, File: pkg + "/repair.go",
			Old:    `	delete(metadata, "managedFields")`,
			New:    "",
			Killer: unit(pkg, "TestAnObjectOfManyLevelsAffectsOnlyItself"),
		},
		{
			Name: "all-managed-fields-of-deep-objects-are-removed", Rule: 0, File: pkg + "/repair.go",
			Old:    `	if !budget.HasMoreLevels(fields["metadata"], budget.MaxLevels-1) {`,
			New:    "	if false {",
			Killer: unit(pkg, "TestOnlyManagedFieldsOfManyLevelsAreRemoved"),
		},
		{
			Name: "events-that-end-early-are-the-end", Rule: 6, File: pkg + "/reader.go",
			Old:    "		return io.ErrUnexpectedEOF\n",
			New:    "		return err\n",
			Killer: unit(pkg, "TestAnEventThatEndsEarlyIsReported"),
		},
	}
}
