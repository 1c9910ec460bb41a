package mutants

// ending returns the mutants of the rule that what ends a program waits.
func ending() []Mutant {
	const pkg, file = "pkg/lib/journal", "pkg/lib/journal/journal.go"
	const suspends, one = "TestAnItemThatEndsSeveralProcessesSuspendsItsNamespace", "TestSuspectsBeginOneAfterTheOther"
	return []Mutant{
		{
			Name: "what-ended-the-program-is-forgotten", Rule: 8, File: file,
			Old:    "		if r.state == working {",
			New:    "		if r.state == suspect {",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "suspects-begin-together", Rule: 8, File: file,
			Old:    "s.Until = now.Add(time.Duration(first) * stagger)",
			New:    "s.Until = now",
			Killer: unit(pkg, one),
		},
		{
			Name: "only-the-suspect-is-suspended", Rule: 8, File: file,
			Old:    "if s.Item == item || s.Ends > 1 && s.Group == item.Group {",
			New:    "if s.Item == item {",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "an-end-suspends-everybody", Rule: 8, File: file,
			Old:    "if s.Item == item || s.Ends > 1 && s.Group == item.Group {",
			New:    "if s.Item == item || s.Ends > 1 {",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "finished-work-stays-suspect", Rule: 8, File: file,
			Old:    "	delete(j.suspects, item)\n",
			New:    "",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "suspects-are-in-no-file", Rule: 8, File: file,
			Old:    "		j.write(s.slot, record{state: suspect, ends: s.Ends, last: s.last, item: s.Item})\n",
			New:    "",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "suspects-are-remembered-forever", Rule: 8, File: file,
			Old:    "		if now.Sub(s.last) > memory || s.last.After(now) {",
			New:    "		if s.last.After(now) {",
			Killer: unit(pkg, "TestSuspectsAreForgotten"),
		},
		{
			Name: "the-first-worker-finishes-an-item", Rule: 8, File: file,
			Old:    "	if w.workers--; w.workers > 0 {",
			New:    "	if w.workers < 0 {",
			Killer: unit(pkg, "TestAnItemCanHaveSeveralWorkers"),
		},
		{
			Name: "queues-do-not-wait-for-suspects", Rule: 8, File: "pkg/lib/fairqueue/options.go",
			Old:    "		if wait == 0 {",
			New:    "		if wait >= 0 {",
			Killer: unit("pkg/lib/fairqueue", "TestWhatEndedTheProgramWaits"),
		},
		{
			Name: "queues-finish-nothing", Rule: 8, File: "pkg/lib/fairqueue/options.go",
			Old:    "	q.journal.Done(q.itemOf(item))\n",
			New:    "",
			Killer: unit("pkg/lib/fairqueue", "TestTheQueueRecordsWhatIsBeingProcessed"),
		},
		{
			Name: "turns-of-suspects-do-not-wait", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "	err := pause(ctx, t.Journal.Wait(item))",
			New:    "	err := pause(ctx, 0)",
			Killer: unit("pkg/lib/turns", "TestATurnOfASuspectWaits"),
		},
		{
			Name: "turns-are-not-recorded", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "	if t.Journal.Begin(item) == 0 {",
			New:    "	if false {",
			Killer: unit("pkg/lib/turns", "TestATurnOfASuspectWaits"),
		},
		{
			Name: "turns-are-never-finished", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "		w.turns.Journal.Done(*w.recorded)\n",
			New:    "",
			Killer: unit("pkg/lib/turns", "TestATurnOfASuspectWaits"),
		},
		{
			Name: "controllers-record-nothing", Rule: 8, File: "pkg/controller/manager.go",
			Old:    "	return journaled{mgr, o.Journal}, nil",
			New:    "	return mgr, nil",
			Killer: unit("pkg/controller", "TestControllersHaveTheJournal"),
		},
		{
			Name: "suspended-objects-are-not-reported", Rule: 8, File: "pkg/controller/suspended.go",
			Old:    "			if s.Ends < 2 {",
			New:    "			if s.Ends > 0 {",
			Killer: unit("pkg/controller", "TestReportsSuspendedObjects"),
		},
	}
}
