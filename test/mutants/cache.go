package mutants

// cache returns the mutants of pkg/lib/scopedcache. The package is not part of the security model, so they have no rule.
func cache() []Mutant {
	const pkg = "pkg/lib/scopedcache"
	return []Mutant{
		{
			Name: "initial-lists-may-stall", File: pkg + "/stream.go",
			Old:    "s.guard = time.AfterFunc(s.limits.silence, s.stalled)",
			New:    "s.guard = time.AfterFunc(time.Hour, s.stalled)",
			Killer: unit(pkg, "TestAnInitialListWithoutAnEndIsReplaced"),
		},
		{
			Name: "slow-initial-lists-are-ended", File: pkg + "/stream.go",
			Old:    "	if s.listing && !s.ended {",
			New:    "	if s.listing && s.ended {",
			Killer: unit(pkg, "TestASlowInitialListIsNotEnded"),
		},
		{
			Name: "initial-lists-may-take-forever", File: pkg + "/stream.go",
			Old:    "min(s.limits.silence, time.Until(s.begun.Add(s.limits.request)))",
			New:    "s.limits.silence",
			Killer: unit(pkg, "TestTheDurationOfAnInitialListIsLimited"),
		},
		{
			Name: "streams-are-ended-after-their-list", File: pkg + "/stream.go",
			Old:    "	if listing {\n",
			New:    "	if listing || !listing {\n",
			Killer: unit(pkg, "TestAWatchMayBeSilentAfterItsInitialList"),
		},
		{
			Name: "initial-lists-are-requested-forever", File: pkg + "/feed.go",
			Old:    "	if initial && a.streamed {",
			New:    "	if initial && a.streamed && a.rejected != nil {",
			Killer: unit(pkg, "TestAnInitialListWithoutAnEndIsReplaced"),
		},
		{
			Name: "withheld-lists-are-read-from-the-servers-cache", File: pkg + "/feed.go",
			Old:    "	case a.streamed:\n",
			New:    "	case a.streamed && a.rejected != nil:\n",
			Killer: unit(pkg, "TestAnInitialListWithoutAnEndIsReplaced"),
		},
		{
			Name: "stalled-lists-are-not-reported", File: pkg + "/reports.go",
			Old:    "	if !f.stopped && f.state == Syncing && f.stream == s {",
			New:    "	if f.stopped && f.state == Syncing && f.stream == s {",
			Killer: unit(pkg, "TestAStalledInitialListIsReported"),
		},
		{
			Name: "events-between-two-watches-are-lost", File: pkg + "/reports.go",
			Old:    "	case !f.serving && f.collected == nil:",
			New:    "	case !f.serving && !f.ready:",
			Killer: unit(pkg, "TestEventsBetweenTheEndOfAWatchAndTheNextAreNotLost"),
		},
		{
			Name: "a-list-without-a-watch-is-live", File: pkg + "/reports.go",
			Old:    "	isOpen := f.stream.isOpen()",
			New:    "	isOpen := f.stream != nil",
			Killer: unit(pkg, "TestEventsBetweenTheEndOfAWatchAndTheNextAreNotLost"),
		},
		{
			Name: "an-ended-watch-stays-live", File: pkg + "/reports.go",
			Old:    "		if !f.stopped && f.state == Live && f.stream == before {",
			New:    "		if f.stopped && f.state == Live && f.stream == before {",
			Killer: unit(pkg, "TestAWatchThatDoesNotCloseIsNotLive"),
		},
		{
			Name: "not-found-without-a-watch", File: pkg + "/read.go",
			Old:    "		case interrupted != nil:",
			New:    "		case interrupted != nil && k == nil:",
			Killer: unit(pkg, "TestAWatchThatHasEndedIsNotLive"),
		},
		{
			Name: "lists-are-short-without-a-watch", File: pkg + "/list.go",
			Old:    "			err = k.notSynced(part, interrupted)",
			New:    "			_ = k.notSynced(part, interrupted)",
			Killer: unit(pkg, "TestAListFailsWhileTheWatchIsInterrupted"),
		},
		{
			Name: "lists-contain-scopes-that-are-not-listed", File: pkg + "/list.go",
			Old:    "(l.each || k.consistsOf(l.scope, parts))",
			New:    "(l.each || !l.each)",
			Killer: unit(pkg, "TestAListOmitsObjectsThatAreClaimedWhileItRuns"),
		},
		{
			Name: "older-lists-take-objects-back", File: pkg + "/serve.go",
			Old:    `		return floor != "" && older(version, floor)`,
			New:    `		return floor == "none" && older(version, floor)`,
			Killer: unit(pkg, "TestAWiderFeedThatLagsBehindRevertsNothing"),
		},
		{
			Name: "handovers-repeat-events", File: pkg + "/reports.go",
			Old:    `	case known != "" && !older(known, version):`,
			New:    `	case known == "none" && !older(known, version):`,
			Killer: unit(pkg, "TestANarrowerFeedThatLagsBehindRevertsNothing"),
		},
		{
			Name: "a-wider-watch-ends-before-others-are-listed", File: pkg + "/plan.go",
			Old:    "			if !k.settledWithoutCluster(ns) {",
			New:    "			if ns == nil {",
			Killer: unit(pkg, "TestAnObjectHasOneServingFeed"),
		},
		{
			Name: "objects-stay-after-a-refusal", File: pkg + "/reports.go",
			Old:    "		k.abandon(f.scope, deleted)",
			New:    "		_ = deleted",
			Killer: unit(pkg, "TestT28ARevocationIsNoticed"),
		},
		{
			Name: "a-refusal-is-reported-as-deletions", File: pkg + "/serve.go",
			Old:    "			k.objects.forget(key)",
			New:    "			k.objects.remove(obj)",
			Killer: unit(pkg, "TestDroppedObjectsAreAddedAgain"),
		},
		{
			Name: "objects-outside-of-the-scope-are-stored", File: pkg + "/reports.go",
			Old:    "	case !f.scope.Covers(scopeOf(obj)):",
			New:    "	case !f.scope.Covers(f.scope):",
			Killer: unit(pkg, "TestObjectsOutsideOfTheScopeAreNotStored"),
		},
		{
			Name: "scopes-change-the-path", File: pkg + "/feed.go",
			Old:    "	return s.checkPath()\n",
			New:    "	return nil\n",
			Killer: unit(pkg, "TestScopesThatWouldChangeAPathAreInvalid"),
		},
		{
			Name: "refused-watches-are-listed", File: pkg + "/feed.go",
			Old:    "	if a.rejected != nil {",
			New:    "	if a.rejected != nil && a.streamed && !a.streamed {",
			Killer: unit(pkg, "TestARefusedWatchIsDeniedEvenIfListsHang"),
		},
		{
			Name: "later-lists-are-older", File: pkg + "/feed.go",
			Old:    `cmp.Or(a.kind.versionOf(a.feed), "0")`,
			New:    `cmp.Or("0", a.kind.versionOf(a.feed))`,
			Killer: unit(pkg, "TestALaterListIsNotOlder"),
		},
		{
			Name: "watches-leak", File: pkg + "/feed.go",
			Old:    "		f.kind.streamOf(f).Stop()",
			New:    "		_ = f.kind.streamOf(f)",
			Killer: unit(pkg, "TestAListThatTransformRefusesLeavesNoWatch"),
		},
		{
			Name: "listed-objects-are-kept-complete", File: pkg + "/feed.go",
			Old:    "	return s.kind.transformEarly\n",
			New:    "	return func(obj any) (any, error) { return obj, nil }\n",
			Killer: unit(pkg, "TestTransformDoesNotWaitForTheEndOfAList"),
		},
		{
			Name: "rechecks-between-two-watches-are-lost", File: pkg + "/recheck.go",
			Old:    "		f.recheckNext = !f.stream.endAfter(0)",
			New:    "		f.recheckNext = f.stream.endAfter(0) && false",
			Killer: unit(pkg, "TestARecheckBetweenTwoWatchesEndsTheSecond"),
		},
		{
			Name: "hints-cause-a-storm", File: pkg + "/feed.go",
			Old:    "time.NewTimer(min(pause, shortest))",
			New:    "time.NewTimer(min(pause, shortest) / 1000)",
			Killer: unit(pkg, "TestHintsDoNotCauseARequestStorm"),
		},
		{
			Name: "retries-after-hints-have-no-budget", File: pkg + "/feed.go",
			Old:    "		done = f.kind.cache.hinted.take(ctx, owners, nil)",
			New:    "		done = func() {}",
			Killer: unit(pkg, "TestManyHintsShareABudget"),
		},
		{
			Name: "an-owner-uses-up-the-budget", File: pkg + "/shares.go",
			Old:    "	if len(owners) > 0 {",
			New:    "	if len(owners) > 1000 {",
			Killer: unit(pkg, "TestRefusedClaimsDoNotDelayOtherOwners"),
		},
		{
			Name: "unanswered-requests-never-end", File: pkg + "/requests.go",
			Old:    "	timer := time.AfterFunc(t.patience, func() { cancel(errUnanswered) })",
			New:    "	timer := time.AfterFunc(time.Hour, func() { cancel(errUnanswered) })",
			Killer: unit(pkg, "TestUnansweredRequestsEnd"),
		},
		{
			Name: "lists-of-interrupted-watches-are-complete", File: pkg + "/list.go",
			Old:    "	if !k.live(scope) {",
			New:    "	if !k.running {",
			Killer: unit(pkg, "TestAListFailsWhileTheWatchIsInterrupted"),
		},
		{
			Name: "lists-ignore-label-selectors", File: pkg + "/list.go",
			Old:    "if options.LabelSelector != nil && !options.LabelSelector.Matches",
			New:    "if options.LabelSelector != nil && options.LabelSelector.Empty() && !options.LabelSelector.Matches",
			Killer: unit(pkg, "TestT12ListsMatchControllerRuntime"),
		},
		{
			Name: "lists-return-stored-objects", File: pkg + "/list.go",
			Old:    "k.copyOf(obj, options.UnsafeDisableDeepCopy)",
			New:    "obj",
			Killer: unit(pkg, "TestT10ReadersGetCopies"),
		},
	}
}
