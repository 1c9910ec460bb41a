package mutants

// rooms returns the mutants of what namespaces share: memory and disk for catalogs.
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
			Old:    "was == 1 && len(b.expected) == 0 {",
			New:    "was == 0 && len(b.expected) == 0 {",
			Killer: unit(pkg, "TestAfterAStartEachNamespaceGetsItsShare"),
		},
		{
			Name: "images-are-expected-after-they-were-tried", Rule: 0, File: "pkg/controller/catalogsource/images.go",
			Old:    "		i.settle(key)\n",
			New:    "",
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
			Name: "those-who-waited-leave-as-much-as-they-use", Rule: 8, File: room,
			Old:    "		if q.Waits && q.Used <= share {",
			New:    "		if false {",
			Killer: unit("pkg/lib/budget", "TestNamespacesThatWaitGetTheirShare"),
		},
	}
}
