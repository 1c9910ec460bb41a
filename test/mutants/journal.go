package mutants

// ending returns the mutants of the rule that what ends a program waits.
func ending() []Mutant {
	const pkg, file = "pkg/lib/journal", "pkg/lib/journal/journal.go"
	const suspends, one = "TestAGroupThatEndsSeveralProcessesIsSuspended", "TestSuspectsBeginOneAfterTheOther"
	return []Mutant{
		{
			Name: "what-ended-the-program-is-forgotten", Rule: 8, File: file,
			Old:    "	s.Ends, s.last = min(s.Ends+1, maxEnds-1), now",
			New:    "	s.Ends, s.last = 1, now",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "suspects-begin-together", Rule: 8, File: file,
			Old:    "time.Duration(s.turn)*stagger",
			New:    "stagger",
			Killer: unit(pkg, one),
		},
		{
			Name: "turns-of-suspects-begin-at-the-start", Rule: 8, File: file,
			Old:    "		j.begun = now\n",
			New:    "		j.begun = now.Add(-time.Minute)\n",
			Killer: unit(pkg, one),
		},
		{
			Name: "suspects-begin-in-any-order", Rule: 8, File: file,
			Old:    "b.began.Compare(a.began), ",
			New:    "",
			Killer: unit(pkg, one),
		},
		{
			Name: "suspects-are-in-no-file", Rule: 8, File: file,
			Old:    "record{state: suspect, ends: s.ended, alone: s.endedAlone, at: s.last, item: s.Item}.bytes()",
			New:    "record{item: s.Item}.bytes()",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "suspects-are-remembered-forever", Rule: 8, File: file,
			Old:    "forgotten := int(now.Sub(r.at) / decay)",
			New:    "forgotten := int(now.Sub(r.at) / (1000 * decay))",
			Killer: unit(pkg, suspends),
		},
		{
			Name: "long-work-is-suspended-with-the-culprit", Rule: 8, File: file,
			Old:    "!s.began.IsZero() && s.weight() == most {",
			New:    "!s.began.IsZero() {",
			Killer: unit(pkg, "TestTheMostSuspectHasEndedTheProgram"),
		},
		{
			Name: "who-works-beside-the-culprit-waits-for-an-hour", Rule: 8, File: file,
			Old:    "max(min(pause(s.Ends), sharedPause), alone)",
			New:    "max(pause(s.Ends), alone)",
			Killer: unit(pkg, "TestSharedEndsSuspendForAFewMinutes"),
		},
		{
			Name: "shared-ends-count-as-ends-alone", Rule: 8, File: file,
			Old:    "s.count(now, groups == 1)",
			New:    "s.count(now, true)",
			Killer: unit(pkg, "TestSharedEndsSuspendForAFewMinutes"),
		},
		{
			Name: "ends-alone-are-remembered-forever", Rule: 8, File: file,
			Old:    "Alone: max(0, r.alone-forgotten)",
			New:    "Alone: r.alone",
			Killer: unit(pkg, "TestEndsAloneAreForgotten"),
		},
		{
			Name: "many-shared-ends-hide-the-culprit", Rule: 8, File: file,
			Old:    "return s.Alone*maxEnds + s.Ends",
			New:    "return s.Ends",
			Killer: unit(pkg, "TestWhoEndedTheProgramAloneIsMostSuspect"),
		},
		{
			Name: "many-suspects-wait-for-long", Rule: 8, File: file,
			Old:    "min(i+1, maxTurn)",
			New:    "i + 1",
			Killer: unit(pkg, "TestManyItems"),
		},
		{
			Name: "turns-that-wait-are-suspect", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "	w.finish()\n	err := w.wait(ctx)",
			New:    "	err := w.wait(ctx)",
			Killer: unit("pkg/lib/turns", "TestATurnThatWaitsIsNotRecorded"),
		},
		{
			Name: "suspended-namespaces-are-quick", Rule: 8, File: "pkg/lib/fairqueue/options.go",
			Old:    "		q.turns.skip(item)\n",
			New:    "",
			Killer: unit("pkg/lib/fairqueue", "TestWhatEndedTheProgramWaits"),
		},
		{
			Name: "suspects-use-all-records", Rule: 8, File: file,
			Old:    "	maxSuspects = slots / 2",
			New:    "	maxSuspects = slots",
			Killer: unit(pkg, "TestManyItems"),
		},
		{
			Name: "the-first-worker-finishes-an-item", Rule: 8, File: file,
			Old:    "	if w.workers--; w.workers > 0 {",
			New:    "	if w.workers < 0 {",
			Killer: unit(pkg, "TestAnItemCanHaveSeveralWorkers"),
		},
		{
			Name: "stopped-work-is-suspect", Rule: 8, File: file,
			Old:    "	for _, w := range j.working {\n		j.write(w.slot, record{})\n	}\n",
			New:    "",
			Killer: unit(pkg, "TestWorkThatIsStoppedIsNotSuspect"),
		},
		{
			Name: "trusted-namespaces-are-suspended", Rule: 8, File: file,
			Old:    "	if j == nil || item.Group == \"\" || slices.Contains(j.trusted, item.Group) {",
			New:    "	if j == nil || item.Group == \"\" {",
			Killer: unit(pkg, "TestTrustedGroupsAreNotRecorded"),
		},
		{
			Name: "queues-do-not-wait-for-suspects", Rule: 8, File: "pkg/lib/fairqueue/options.go",
			Old:    "		if wait == 0 {",
			New:    "		if wait >= 0 {",
			Killer: unit("pkg/lib/fairqueue", "TestWhatEndedTheProgramWaits"),
		},
		{
			Name: "queues-finish-nothing", Rule: 8, File: "pkg/lib/fairqueue/options.go",
			Old:    "	q.journal.Done(is)\n",
			New:    "	_ = is\n",
			Killer: unit("pkg/lib/fairqueue", "TestTheQueueRecordsWhatIsBeingProcessed"),
		},
		{
			Name: "turns-of-suspects-do-not-wait", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "	err := pause(ctx, t.Journal.Wait(t.item(namespace)))",
			New:    "	err := pause(ctx, 0)",
			Killer: unit("pkg/lib/turns", "TestATurnOfASuspectWaits"),
		},
		{
			Name: "turns-are-not-recorded", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "	w.recorded = w.turns.Journal.Begin(item) == 0",
			New:    "	w.recorded = item.Group == \"\"",
			Killer: unit("pkg/lib/turns", "TestATurnOfASuspectWaits"),
		},
		{
			Name: "turns-are-never-finished", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "		w.turns.Journal.Done(w.turns.item(w.Namespace))\n",
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
			Name: "namespaces-count-twice", Rule: 8, File: "pkg/controller/suspended.go",
			Old:    "	case req.Namespace == \"\" && isOfNamespaces(controller):",
			New:    "	case false:",
			Killer: unit("pkg/controller", "TestTheGroupOfARequestIsItsNamespace"),
		},
		{
			Name: "reports-name-no-object", Rule: 8, File: "pkg/controller/suspended.go",
			Old:    "	case !isController || isOfNamespaces(controller):",
			New:    "	case false:",
			Killer: unit("pkg/controller", "TestASuspendedNamespaceIsReportedAtAnObject"),
		},
		{
			Name: "queues-finish-what-is-in-another-namespace", Rule: 8, File: "pkg/lib/fairqueue/options.go",
			Old:    "	delete(q.begun, item)\n",
			New:    "	delete(q.begun, item)\n	is = q.itemOf(item)\n",
			Killer: unit("pkg/lib/fairqueue", "TestTheQueueFinishesWhatItHasRecorded"),
		},
		{
			Name: "long-resolutions-are-not-recorded", Rule: 8, File: "pkg/controller/subscription/long.go",
			Old:    "	if l.journal.Begin(itemOf(namespace)) == 0 {",
			New:    "	if false {",
			Killer: unit("pkg/controller/subscription", "TestALongResolutionIsRecorded"),
		},
		{
			Name: "long-resolutions-do-not-wait", Rule: 8, File: "pkg/controller/subscription/long.go",
			Old:    "		if l.journal.Wait(itemOf(namespace)) > 0 {",
			New:    "		if false {",
			Killer: unit("pkg/controller/subscription", "TestTheLongResolutionsOfASuspendedNamespaceWait"),
		},
		{
			Name: "long-resolutions-of-suspects-never-resume", Rule: 8, File: "pkg/controller/subscription/long.go",
			Old:    "			resumed = time.After(wait)",
			New:    "			_ = wait",
			Killer: unit("pkg/controller/subscription", "TestTheLongResolutionsOfASuspendedNamespaceWait"),
		},
		{
			Name: "downloads-are-not-recorded", Rule: 8, File: "pkg/controller/kit/bundleimage/images.go",
			Old:    "b.Journal.Work(ctx, ",
			New:    "(*journal.Journal)(nil).Work(ctx, ",
			Killer: unit("pkg/controller/kit/bundleimage", "TestAddsTheContentOfBundleImages"),
		},
		{
			Name: "downloads-that-wait-for-a-turn-are-suspect", Rule: 8, File: "pkg/controller/kit/bundleimage/images.go",
			Old:    "	downloaded()\n	ctx, end, err",
			New:    "	ctx, end, err",
			Killer: unit("pkg/controller/kit/bundleimage", "TestAddsTheContentOfBundleImages"),
		},
		{
			Name: "work-of-suspects-does-not-wait", Rule: 8, File: file,
			Old:    "	for wait := j.Begin(item); wait > 0; wait = j.Begin(item) {",
			New:    "	for wait := j.Begin(item); wait < 0; wait = j.Begin(item) {",
			Killer: unit(pkg, "TestWorkWaitsUntilItCanBegin"),
		},
		{
			Name: "new-extensions-are-never-suspect", Rule: 8, File: "pkg/controller/suspended.go",
			Old:    "	return ext.Spec.Namespace\n",
			New:    "	return \"/\" + req.Name\n",
			Killer: unit("pkg/controller", "TestTheGroupOfAClusterExtensionIsItsNamespace"),
		},
		{
			Name: "cluster-catalogs-are-suspended", Rule: 8, File: "pkg/controller/suspended.go",
			Old:    "	case controller == \"clustercatalog\":",
			New:    "	case false:",
			Killer: unit("pkg/controller", "TestTheGroupOfAClusterExtensionIsItsNamespace"),
		},
		{
			Name: "the-journal-gives-its-space-back", Rule: 8, File: file,
			Old:    "j.file.Truncate(int64(len(content)))",
			New:    "j.file.Truncate(int64(0 * len(content)))",
			Killer: unit(pkg, "TestTheFileKeepsItsSpace"),
		},
		{
			Name: "suspensions-end-when-the-clock-says-so", Rule: 8, File: file,
			Old:    "min(delay, j.begun.Add(delay).Sub(now))",
			New:    "j.begun.Add(delay).Sub(now)",
			Killer: unit(pkg, "TestAClockThatIsSetBackProlongsNoSuspension"),
		},
		{
			Name: "suspensions-last-until-the-clock-is-right", Rule: 8, File: file,
			Old:    "alone), lastPause)",
			New:    "alone), 24*lastPause)",
			Killer: unit(pkg, "TestAClockThatIsSetBackProlongsNoSuspension"),
		},
		{
			Name: "shared-suspensions-are-over-when-the-program-starts", Rule: 8, File: file,
			Old:    "max(min(pause(s.Ends), sharedPause), ",
			New:    "max(s.last.Add(min(pause(s.Ends), sharedPause)).Sub(begun), ",
			Killer: unit(pkg, "TestGroupsThatEndTheProgramInTurnLeaveItTime"),
		},
		{
			Name: "suspended-objects-are-not-reported", Rule: 8, File: "pkg/controller/suspended.go",
			Old:    "range j.Suspended() {",
			New:    "range j.Suspended()[:0] {",
			Killer: unit("pkg/controller", "TestReportsSuspendedObjects"),
		},
	}
}
