package mutants

// rooms returns the mutants of what namespaces share: memory and disk for catalogs, and turns in which their images are read.
func rooms() []Mutant {
	const pkg, bound, room = "pkg/controller/catalogsource", "pkg/controller/catalogsource/budget.go", "pkg/lib/budget/room.go"
	return []Mutant{
		{
			Name: "a-few-namespaces-take-all-memory-of-catalogs", Rule: 8, File: bound,
			Old:    "	if size > b.used[h] && !b.room.Admits(q) {",
			New:    "	if q.Others = append(q.Others, sizes.Usage{Used: -q.Used}); size > b.used[h] && !b.room.Admits(q) {",
			Killer: unit(pkg, "TestAFewNamespacesLeaveRoomForOthers"),
		},
		{
			Name: "namespaces-that-are-read-first-take-the-room-of-others", Rule: 8, File: bound,
			Old:    "		b.expected[key] = true\n",
			New:    "",
			Killer: unit(pkg, "TestAfterAStartEachNamespaceGetsItsShare"),
		},
		{
			Name: "what-becomes-free-is-taken-before-those-that-wait", Rule: 8, File: bound,
			Old:    "		want(key, n)\n",
			New:    "		want(key, 0*n)\n",
			Killer: unit(pkg, "TestANamespaceThatWaitsGetsWhatBecomesFree"),
		},
		{
			Name: "the-room-for-content-is-free-while-it-is-read", Rule: 8, File: bound,
			Old:    "	if b.wanted[h.key] <= q.Used {",
			New:    "	if b.wanted[h.key] > 0 {",
			Killer: unit(pkg, "TestANamespaceThatWaitsGetsWhatBecomesFree"),
		},
		{
			Name: "registries-are-refused-when-they-are-listed-again", File: bound,
			Old:    "size > replaced || replaced == 0)",
			New:    "size >= replaced || replaced == 0)",
			Killer: unit(pkg, "TestListingAgainIsNotRefusedForOtherNamespaces"),
		},
		{
			Name: "new-content-does-not-grow", Rule: 8, File: bound,
			Old:    "size > replaced || replaced == 0)",
			New:    "size > replaced)",
			Killer: unit(pkg, "TestListingAgainIsNotRefusedForOtherNamespaces"),
		},
		{
			Name: "refused-catalogs-wait-after-all-were-read", File: bound,
			Old:    "	if was > 0 && len(b.expected) == 0 {",
			New:    "	if was == 0 && len(b.expected) == 0 {",
			Killer: unit(pkg, "TestAfterAStartEachNamespaceGetsItsShare"),
		},
		{
			Name: "catalogs-are-expected-after-they-were-tried", Rule: 0, File: "pkg/controller/catalogsource/start.go",
			Old:    "	if seen.snapshot != nil || seen.problem != nil {",
			New:    "	if false {",
			Killer: unit(pkg, "TestAnImageWaitsForRoomUntilItIsRead"),
		},
		{
			Name: "catalogs-that-were-read-wait-for-room", Rule: 0, File: "pkg/controller/catalogsource/space.go",
			Old:    "		i.budget.satisfy(key)\n",
			New:    "",
			Killer: unit(pkg, "TestAnImageWaitsForRoomUntilItIsRead"),
		},
		{
			Name: "room-is-left-for-those-who-cannot-use-it", File: room,
			Old:    "		case u.waits() && u.Wants <= share:",
			New:    "		case u.waits():",
			Killer: unit("pkg/lib/budget", "TestNothingIsLeftForThoseWhoWantMoreThanTheirShare"),
		},
		{
			Name: "registries-send-megabytes-ahead", Rule: 8, File: "pkg/image/transport.go",
			Old:    "MaxReceiveBufferPerStream: maxUnread",
			New:    "MaxReceiveBufferPerStream: 16 * maxUnread",
			Killer: unit("pkg/image", "TestARegistryCanSendLittleAhead"),
		},
		{
			Name: "records-of-any-size-describe-an-entry", Rule: 8, File: "pkg/image/unpack.go",
			Old:    "	case c.inHeader && c.header > MaxHeaderBytes:",
			New:    "	case c.inHeader && c.header < 0:",
			Killer: unit("pkg/image", "TestLimitsWhatDescribesAnEntry"),
		},
		{
			Name: "contents-that-are-not-read-describe-the-next-entry", File: "pkg/image/unpack.go",
			Old:    "		if err := u.skip(reader, header); err != nil {",
			New:    "		if err := error(nil); err != nil {",
			Killer: unit("pkg/image", "TestLimitsWhatDescribesAnEntry"),
		},
		{
			Name: "holes-of-any-size-are-skipped", Rule: 8, File: "pkg/image/unpack.go",
			Old:    "	if u.read += n; err == nil {",
			New:    "	if u.read += 0 * n; false {",
			Killer: unit("pkg/image", "TestHolesCountAsUnpacked"),
		},
		{
			Name: "names-of-tenants-take-as-much-as-others", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "		e.maxNames = to.MaxNames\n",
			New:    "",
			Killer: unit("pkg/catalog/layer", "TestLimitsTheNamesOfTheFilesOfTenants"),
		},
		{
			Name: "any-number-of-registries-is-read", Rule: 8, File: "pkg/controller/catalogsource/pulls.go",
			Old:    "	if err := turn.Begin(ctx); err != nil {",
			New:    "	if err := error(nil); err != nil {",
			Killer: unit(pkg, "TestAnImageIsReadInATurn"),
		},
		{
			Name: "slow-registries-use-all-slots", Rule: 8, File: "pkg/controller/catalogsource/pulls.go",
			Old:    "Late: errPullTimeout, LateFor: layersLateFor,",
			New:    "Late: errPullTimeout, LateFor: 0 * layersLateFor,",
			Killer: unit(pkg, "TestRegistriesThatSendSlowlyUseHalfOfTheSlots"),
		},
		{
			Name: "slow-registries-are-late-only-if-others-wait", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "w.over && t.LateAlone",
			New:    "false",
			Killer: unit(pkg, "TestRegistriesThatSendSlowlyUseHalfOfTheSlots"),
		},
		{
			Name: "large-images-are-interrupted", File: "pkg/controller/catalogsource/pulls.go",
			Old:    "Grace: pullTimeout + maxPullWaits,",
			New:    "Grace: time.Minute,",
			Killer: unit(pkg, "TestReadingAnImageIsNotInterrupted"),
		},
		{
			Name: "registries-wait-for-the-parser-of-others", File: "pkg/catalog/pull/pull.go",
			Old:    "		defer o.Registry.End()\n",
			New:    "",
			Killer: unit("pkg/catalog/pull", "TestTheTurnOfARegistryEndsBeforeACatalogIsParsed"),
		},
		{
			Name: "layers-take-more-memory-than-the-program-has", Rule: 8, File: "pkg/controller/catalogsource/pulls.go",
			Old:    "layerSlots, layerMemory = 8,",
			New:    "layerSlots, layerMemory = 16,",
			Killer: unit("pkg/controller", "TestAllBudgetsOfCatalogFitIntoItsLimit"),
		},
		{
			Name: "those-who-waited-leave-as-much-as-they-use", Rule: 8, File: room,
			Old:    "		if q.Waits && q.Used <= share {",
			New:    "		if false {",
			Killer: unit("pkg/lib/budget", "TestNamespacesThatWaitGetTheirShare"),
		},
	}
}
