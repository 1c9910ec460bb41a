package mutants

// pulls returns the mutants of what reads the images of catalogs and bundles.
func pulls() []Mutant {
	return []Mutant{
		{
			Name: "names-of-excluded-packages-take-no-memory", Rule: 8, File: "pkg/catalog/fbc/load.go",
			Old:    "b.kept.Add(sizeOfName(name)); err != nil {\n		b.over",
			New:    "b.kept.Add(0 * sizeOfName(name)); err != nil {\n		b.over",
			Killer: unit("pkg/catalog/fbc", "TestNamesOfExcludedPackagesCountTowardTheMemoryOfACatalog"),
		},
		{
			Name: "names-of-packages-of-a-file-take-no-memory", Rule: 8, File: "pkg/catalog/fbc/load.go",
			Old:    "b.kept.Add(sizeOfName(name)); err != nil {\n		return",
			New:    "b.kept.Add(0 * sizeOfName(name)); err != nil {\n		return",
			Killer: unit("pkg/catalog/fbc", "TestNamesOfExcludedPackagesCountTowardTheMemoryOfACatalog"),
		},
		{
			Name: "snapshots-name-all-excluded-packages", Rule: 8, File: "pkg/catalog/fbc/snapshot.go",
			Old:    "min(len(unusable), catalog.MaxExcluded)",
			New:    "len(unusable)",
			Killer: unit("pkg/catalog/fbc", "TestASnapshotNamesFewExcludedPackages"),
		},
		{
			Name: "shortened-names-keep-the-whole", Rule: 8, File: "pkg/catalog/fbc/builder.go",
			Old:    "strings.Clone(s[:catalog.MaxNameBytes])",
			New:    `strings.TrimPrefix(s[:catalog.MaxNameBytes], "")`,
			Killer: unit("pkg/catalog/fbc", "TestAShortenedNameIsACopy"),
		},
		{
			Name: "texts-of-snapshots-take-no-memory", Rule: 8, File: "pkg/catalog/size.go",
			Old:    "slices.Concat(s.Excluded, s.Warnings)",
			New:    "slices.Concat(s.Warnings)",
			Killer: unit("pkg/catalog", "TestTheSizeOfASnapshotIncludesItsTexts"),
		},
		{
			Name: "indexes-begin-with-a-line-of-any-length", Rule: 8, File: "pkg/catalog/disk/snapshot.go",
			Old:    "len(text) > maxHeader {",
			New:    "len(text) < 0 {",
			Killer: unit("pkg/catalog/disk", "TestTheFirstLineOfAnIndexHasALimit"),
		},
		{
			Name: "stored-catalogs-are-read-without-memory", Rule: 8, File: "pkg/catalog/disk/snapshot.go",
			Old:    "kept.Add(l.Size())",
			New:    "kept.Add(0)",
			Killer: unit("pkg/catalog/disk", "TestAStoredSnapshotIsReadWithinTheMemory"),
		},
		{
			Name: "stored-catalogs-are-read-without-a-turn", Rule: 8, File: "pkg/catalog/pull/pull.go",
			Old:    "o.storedInTurn(ctx, key)\n",
			New:    "o.stored(key, nil)\n",
			Killer: unit("pkg/catalog/pull", "TestReadsAnImageOnce"),
		},
		{
			Name: "conditions-name-all-excluded-packages", Rule: 8, File: "pkg/controller/catalogsource/status.go",
			Old:    "min(len(served.Excluded), maxShownExcluded)",
			New:    "len(served.Excluded)",
			Killer: unit("pkg/controller/catalogsource", "TestAConditionNamesFewExcludedPackages"),
		},
		{
			Name: "manifests-of-images-have-any-number-of-values", Rule: 8, File: "pkg/image/transport.go",
			Old:    "resp.Body = &counted{ReadCloser: resp.Body}",
			New:    "_ = &counted{}",
			Killer: unit("pkg/image", "TestManifestsOfManyValuesAreNotDecoded"),
		},
		{
			Name: "configurations-of-images-have-any-number-of-values", Rule: 8, File: "pkg/image/blob.go",
			Old:    "checkValues(data)",
			New:    "checkValues(nil)",
			Killer: unit("pkg/image", "TestManifestsOfManyValuesAreNotDecoded"),
		},
		{
			Name: "values-are-not-counted", Rule: 8, File: "pkg/lib/budget/structures.go",
			Old:    "len(json) > most && countOutside",
			New:    "len(json) < 0 && countOutside",
			Killer: unit("pkg/lib/budget", "TestCountsValuesOutsideOfStrings"),
		},
		{
			Name: "ignored-files-do-not-let-other-catalogs-proceed", Rule: 8, File: "pkg/catalog/fbc/loader.go",
			Old:    "		if err := l.between(ctx); err != nil {",
			New:    "		if err := context.Cause(ctx); err != nil {",
			Killer: unit("pkg/catalog/fbc", "TestOtherLoadsProceedBetweenFilesThatAreIgnored"),
		},
		{
			Name: "content-is-assembled-without-letting-others-proceed", Rule: 8, File: "pkg/catalog/fbc/loader.go",
			Old:    "err = l.between(parent)",
			New:    "err = context.Cause(parent)",
			Killer: unit("pkg/catalog/fbc", "TestOtherLoadsProceedBetweenFilesThatAreIgnored"),
		},
		{
			Name: "patterns-times-paths-have-no-limit", Rule: 8, File: "pkg/catalog/fbc/ignore.go",
			Old:    "m.work > maxIgnoreWork {",
			New:    "m.work < 0 {",
			Killer: unit("pkg/catalog/fbc", "TestLimitsTheProductOfPatternsAndPaths"),
		},
		{
			Name: "catalogs-are-stored-without-letting-others-proceed", Rule: 8, File: "pkg/catalog/pull/pull.go",
			Old:    "	return loader.Between(ctx)\n",
			New:    "	return context.Cause(ctx)\n",
			Killer: unit("pkg/catalog/pull", "TestOtherCatalogsProceedBetweenTheStepsOfOne"),
		},
		{
			Name: "catalogs-that-do-not-yield-come-first", Rule: 8, File: "pkg/controller/catalogsource/pulls.go",
			Old:    "tenants: one(lateFor)}",
			New:    "tenants: one(0)}",
			Killer: unit("pkg/controller/catalogsource", "TestACatalogThatDoesNotYieldComesLast"),
		},
		{
			Name: "catalogs-that-do-not-yield-are-stopped-after-a-minute", Rule: 8, File: "pkg/controller/catalogsource/pulls.go",
			Old:    "2 * time.Second, 10 * time.Second",
			New:    "2 * time.Second, time.Minute",
			Killer: unit("pkg/controller/catalogsource", "TestACatalogThatDoesNotYieldComesLast"),
		},
		{
			Name: "waits-for-others-are-time-of-a-pull", Rule: 8, File: "pkg/controller/catalogsource/pulls.go",
			Old:    "pullTimeout, maxPullWaits, errPullTimeout",
			New:    "pullTimeout, 0*maxPullWaits, errPullTimeout",
			Killer: unit("pkg/controller/catalogsource", "TestWaitsForOtherNamespacesAreNotPartOfThePullTimeout"),
		},
		{
			Name: "names-of-any-depth-are-looked-up", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "below && depth > MaxDepth {",
			New:    "below && depth < 0 {",
			Killer: unit("pkg/catalog/layer", "TestLimitsTheDepthOfHiddenFiles"),
		},
		{
			Name: "tenants-unpack-as-much-as-anyone", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "e.unpacked.Max = to.MaxUnpacked",
			New:    "e.unpacked.Max += 0 * to.MaxUnpacked",
			Killer: unit("pkg/catalog/layer", "TestLimitsWhatTheLayersContainUnpacked"),
		},
		{
			Name: "small-files-take-their-bytes", Rule: 8, File: "pkg/catalog/disk/store.go",
			Old:    "return (file.Size() + block - 1) / block * block",
			New:    "return file.Size()",
			Killer: unit("pkg/catalog/disk", "TestDeletesTheOldestBeyondTheLimit"),
		},
		{
			Name: "any-number-of-files-is-stored", Rule: 8, File: "pkg/catalog/disk/store.go",
			Old:    "&& left <= maxFiles {",
			New:    "&& left >= 0 {",
			Killer: unit("pkg/catalog/disk", "TestDeletesTheOldestBeyondTheNumber"),
		},
		{
			Name: "registries-are-listed-without-a-pause", Rule: 8, File: "pkg/controller/catalogsource/connections.go",
			Old:    "e.resume = time.Now().Add(longestRest)",
			New:    "e.resume = time.Time{}",
			Killer: unit("pkg/controller/catalogsource", "TestARegistryIsNotListedAgainAtOnce"),
		},
		{
			Name: "layers-expand-by-their-claimed-size", Rule: 8, File: "pkg/image/unpack.go",
			Old:    "MaxRatio*min(c.size, c.in.read+ahead):",
			New:    "MaxRatio*min(c.size, c.in.read+c.size):",
			Killer: unit("pkg/image", "TestALayerExpandsByWhatWasReceived"),
		},
	}
}
