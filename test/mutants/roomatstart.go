package mutants

// roomAtStart returns the mutants of the room that is left for catalogs when the program starts.
func roomAtStart() []Mutant {
	const pkg, start = "pkg/controller/catalogsource", "pkg/controller/catalogsource/start.go"
	return []Mutant{
		{
			Name: "suspended-namespaces-lose-their-room", Rule: 8, File: start,
			Old:    "	r.images.expect(keys)\n",
			New:    "",
			Killer: unit(pkg, "TestWhatExistsAtTheStartIsExpectedOnce"),
		},
		{
			Name: "catalogs-that-are-read-lose-their-room", Rule: 8, File: start,
			Old:    "	if seen.snapshot != nil || seen.problem != nil {",
			New:    "	if true {",
			Killer: unit(pkg, "TestWhatExistsAtTheStartIsExpectedOnce"),
		},
		{
			Name: "each-catalog-that-is-reconciled-reserves-room", Rule: 8, File: start,
			Old:    "		r.images.settle(key)\n",
			New:    "		r.images.expect([]types.NamespacedName{key})\n",
			Killer: unit(pkg, "TestWhatExistsAtTheStartIsExpectedOnce"),
		},
		{
			Name: "deleted-catalogs-keep-their-room", File: pkg + "/reconciler.go",
			Old:    "	r.images.settle(key)\n",
			New:    "",
			Killer: unit(pkg, "TestWhatExistsAtTheStartIsExpectedOnce"),
		},
		{
			Name: "slow-registries-reserve-room-forever", Rule: 8, File: start,
			Old:    "		if i.sleep(ctx, maxExpected) {",
			New:    "		if i.sleep(ctx, 100*maxExpected) {",
			Killer: unit(pkg, "TestWhatIsExpectedIsNotAwaitedForever"),
		},
		{
			Name: "what-was-left-for-a-deleted-catalog-is-not-used", File: pkg + "/budget.go",
			Old:    "	if isUsed || isWanted {",
			New:    "	if isUsed || isWanted && false {",
			Killer: unit(pkg, "TestOthersAreTriedAgainWhenANamespaceNoLongerWaits"),
		},
		{
			Name: "what-was-left-for-a-smaller-catalog-is-not-used", File: pkg + "/budget.go",
			Old:    "		delete(b.wanted, key)\n		b.wakeRefused(key)\n",
			New:    "		delete(b.wanted, key)\n",
			Killer: unit(pkg, "TestOthersAreTriedAgainWhenANamespaceNoLongerWaits"),
		},
		{
			Name: "one-namespace-fills-half-of-the-disk-and-another-the-rest", Rule: 8, File: "pkg/lib/budget/room.go",
			Old:    "	wants := []int64{q.Used, Unknown}\n",
			New:    "	wants := []int64{q.Used}\n",
			Killer: unit(pkg, "TestHowManyNamespacesFillABudget"),
		},
		{
			Name: "config-maps-are-refused-forever", File: pkg + "/observe.go",
			Old:    "r.configMaps.budget.isRefused(key) {",
			New:    "false {",
			Killer: unit(pkg, "TestACatalogInAConfigMapIsTriedAgain"),
		},
		{
			Name: "stored-catalogs-wait-for-slow-registries", Rule: 8, File: pkg + "/pulls.go",
			Old:    "	if digest != \"\" {\n",
			New:    "	if false {\n",
			Killer: unit(pkg, "TestAStoredCatalogNeedsNoTurnForItsRegistry"),
		},
		{
			Name: "catalogs-in-other-directories-are-the-same", Rule: 0, File: "pkg/catalog/pull/pull.go",
			Old:    "disk.Key(at.Repository, at.Named, o.Extract, ",
			New:    "disk.Key(at.Repository, at.Named, ",
			Killer: unit("pkg/catalog/pull", "TestStoresTheCatalogsOfEachDirectory"),
		},
	}
}
