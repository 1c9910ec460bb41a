package mutants

// catalogs returns the mutants of the reader of bundles, of registries and of what a catalog may repeat.
func catalogs() []Mutant {
	return []Mutant{
		{
			Name: "any-number-of-documents", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "len(p.from) > MaxManifests {",
			New:    "len(p.from) < 0 {",
			Killer: unit("pkg/bundle", "TestLimitsApplyToTheDocumentsOfAManifest"),
		},
		{
			Name: "documents-expand-together", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "p.bytes += len(object); p.bytes > MaxBundleBytes {",
			New:    "p.bytes += len(object); p.bytes < 0 {",
			Killer: unit("pkg/bundle", "TestLimitsApplyToTheDocumentsOfAManifest"),
		},
		{
			Name: "files-expand-together", Rule: 8, File: "pkg/catalog/fbc/manifests.go",
			Old:    "r.size.Add(int64(len(object))) > catalog.MaxContentBytes",
			New:    "r.size.Add(int64(len(object))) < 0",
			Killer: unit("pkg/catalog/fbc", "TestLimitsTheDocumentsOfABundle"),
		},
		{
			Name: "any-number-of-objects-in-files", Rule: 8, File: "pkg/catalog/fbc/manifests.go",
			Old:    "r.count.Add(1) > catalog.MaxManifests",
			New:    "r.count.Add(1) < 0",
			Killer: unit("pkg/catalog/fbc", "TestLimitsTheDocumentsOfABundle"),
		},
		{
			Name: "aliases-after-an-end-marker", Rule: 8, File: "pkg/catalog/objects.go",
			Old:    "if err := checkAliases(document, aliases); err != nil {",
			New:    "if err := checkAliases(nil, aliases); err != nil {",
			Killer: unit("pkg/catalog", "TestReadObjectsLimitsTheAliasesOfEveryDocument"),
		},
		{
			Name: "any-number-of-warnings", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "len(p.bundle.Warnings) < catalog.MaxContentWarnings {",
			New:    "len(p.bundle.Warnings) >= 0 {",
			Killer: unit("pkg/bundle", "TestLimitsTheNumberOfWarnings"),
		},
	}
}
