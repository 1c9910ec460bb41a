package mutants

// turnsOfRoles returns the mutants of the rule that an operator's roles are written and deleted in turns.
func turnsOfRoles() []Mutant {
	const pkg, turn = "pkg/controller/csv", "pkg/controller/csv/turns.go"
	return []Mutant{
		{
			Name: "all-roles-in-one-turn", Rule: 8, File: turn,
			Old:    "return t.used >= turnSize || ",
			New:    "return ",
			Killer: unit(pkg, "TestManyRolesAreWrittenInTurns"),
		},
		{
			Name: "slow-turns-do-not-end", Rule: 8, File: turn,
			Old:    "t.clock != nil && !t.clock.Now().Before(t.end)",
			New:    "t.clock != nil && t.end.IsZero()",
			Killer: unit(pkg, "TestATurnEndsAfterSomeTime"),
		},
		{
			Name: "turns-begin-with-what-the-cache-does-not-show", Rule: 8, File: turn,
			Old:    "s.turn.run, s.turn.before = was, was.outcomes",
			New:    "s.turn.run = was",
			Killer: unit(pkg, "TestATurnContinuesAfterObjectsThatTheCacheDoesNotShow"),
		},
		{
			Name: "turns-begin-with-what-is-refused", Rule: 8, File: turn,
			Old:    "		t.keep(what, key, outcome{refused: remembered(err)})",
			New:    "",
			Killer: unit(pkg, "TestManyOccupiedTargetsDoNotDelayOthers"),
		},
		{
			Name: "turns-end-without-another", Rule: 6, File: turn,
			Old:    "	if s.turn.unfinished || s.turn.lags {",
			New:    "	if false {",
			Killer: unit(pkg, "TestManyRolesAreWrittenInTurns"),
		},
		{
			Name: "refusals-of-earlier-turns-are-final", Rule: 6, File: turn,
			Old:    "	if s.turn.refused {",
			New:    "	if false {",
			Killer: unit(pkg, "TestManyOccupiedTargetsDoNotDelayOthers"),
		},
		{
			Name: "all-objects-are-compared-in-one-turn", Rule: 8, File: turn,
			Old:    "to = min(n, from+max(0, turnSize-t.used))",
			New:    "to = n",
			Killer: unit(pkg, "TestManyObjectsAreComparedInTurns"),
		},
		{
			Name: "hand-made-csvs-write-before-all-turns-have-compared", Rule: 7, File: pkg + "/collisions.go",
			Old:    "if err == nil && to < len(steps) {",
			New:    "if false {",
			Killer: unit(pkg, "TestManyObjectsAreComparedInTurns"),
		},
		{
			Name: "all-surplus-roles-are-deleted-in-one-turn", Rule: 8, File: pkg + "/children.go",
			Old:    "s.turn.remove(taskPrune, obj, func() error { return r.remove(ctx, s, account, obj) })",
			New:    "r.remove(ctx, s, account, obj)",
			Killer: unit(pkg, "TestManyRolesAreDeletedInTurns"),
		},
		{
			Name: "all-earlier-roles-are-deleted-in-one-turn", Rule: 8, File: pkg + "/retire.go",
			Old:    "s.turn.remove(taskRetire, obj, func() error { return r.remove(ctx, s, account, obj) })",
			New:    "r.remove(ctx, s, account, obj)",
			Killer: unit(pkg, "TestManyRolesOfAnEarlierVersionAreDeletedInTurns"),
		},
		{
			Name: "phases-change-while-roles-wait", Rule: 6, File: pkg + "/next.go",
			Old:    "if f.Unwritten && f.CSV.Status.Phase != phaseNone {",
			New:    "if false {",
			Killer: unit(pkg, "TestThePhaseStaysWhileRolesWaitForTheirTurn"),
		},
		{
			Name: "all-roles-are-published-in-one-turn", Rule: 8, File: pkg + "/publish.go",
			Old:    "changed, err := s.turn.do(taskPublish, obj, func() (bool, error) {",
			New:    "changed, err := (&turn{}).do(taskPublish, obj, func() (bool, error) {",
			Killer: unit(pkg, "TestManyClusterRolesArePublishedInTurns"),
		},
		{
			Name: "finalizers-are-removed-before-all-turns", Rule: 6, File: pkg + "/finalize.go",
			Old:    "			s.interrupt(taskFinalize, len(left))\n			return true, nil",
			New:    "			s.interrupt(taskFinalize, len(left))\n			return false, nil",
			Killer: unit(pkg, "TestManyObjectsOfADeletedVersionAreRemovedInTurns"),
		},
		{
			Name: "all-objects-are-finalized-in-one-turn", Rule: 8, File: pkg + "/finalize.go",
			Old:    "			err = s.turn.remove(taskFinalize, obj, func() error { return r.removeOrReset(ctx, s, account, obj) })",
			New:    "			err = r.removeOrReset(ctx, s, account, obj)",
			Killer: unit(pkg, "TestManyObjectsOfADeletedVersionAreRemovedInTurns"),
		},
		{
			Name: "all-webhooks-are-detached-in-one-turn", Rule: 8, File: pkg + "/finalize.go",
			Old:    "		err := s.turn.remove(taskFinalize, obj, func() error { return r.removeOrReset(ctx, s, account, obj) })",
			New:    "		err := r.removeOrReset(ctx, s, account, obj)",
			Killer: unit(pkg, "TestManyWebhooksAreRemovedInTurnsFromATerminatingNamespace"),
		},
		{
			Name: "refusals-are-remembered-whole", Rule: 8, File: turn,
			Old:    "text: strings.Clone(status.Cut(err.Error(), maxLines))",
			New:    "text: strings.Clone(err.Error())",
			Killer: unit(pkg, "TestWhatIsRememberedOfARefusalIsSmallAndOfItsKind"),
		},
		{
			Name: "failures-wait-for-the-event-of-their-status", Rule: 0, File: "pkg/controller/csv/reconciler.go",
			Old:    "	return failed.requeueAfter(minBackoff), nil\n",
			New:    "	return failed, nil\n",
			Killer: unit("pkg/controller/csv", "TestInstallsThatFail"),
		},
		{
			Name: "slow-deployments-end-no-turn", Rule: 8, File: "pkg/install/deployment/installer.go",
			Old:    "|| tried && i.IsOver != nil && i.IsOver(sent) {",
			New:    "|| tried && i.IsOver != nil && i.IsOver(MaxWritten) && false {",
			Killer: unit(pkg, "TestATurnOfDeploymentsEndsAfterSomeTime"),
		},
		{
			Name: "turns-that-changed-nothing-end-early", Rule: 8, File: turn,
			Old:    "	if changed == 0 {\n",
			New:    "	if false {\n",
			Killer: unit(pkg, "TestATurnOfDeploymentsEndsAfterSomeTime"),
		},
		{
			Name: "slow-namespaces-take-turns-of-any-length", Rule: 8, File: "pkg/lib/fairqueue/turns.go",
			Old:    "best == nil || its < used {",
			New:    "best == nil || its < used && false {",
			Killer: unit("pkg/lib/fairqueue", "TestOfSlowNamespacesTheOneThatTookLeastIsFirst"),
		},
		{
			Name: "usage-never-decays", Rule: 8, File: "pkg/lib/fairqueue/turns.go",
			Old:    "math.Exp2(-float64(t.limits.Clock.Since(used.at))/float64(usageHalf))",
			New:    "math.Exp2(-float64(t.limits.Clock.Since(used.at))/float64(1000*usageHalf))",
			Killer: unit("pkg/lib/fairqueue", "TestTheUsageOfSlowNamespacesDecays"),
		},
		{
			Name: "new-names-are-always-first", Rule: 8, File: "pkg/lib/fairqueue/turns.go",
			Old:    "usage{t.usedBy(g, t.leastUsed()) + own,",
			New:    "usage{t.usedBy(g, 0) + own,",
			Killer: unit("pkg/lib/fairqueue", "TestTheUsageOfSlowNamespacesDecays"),
		},
		{
			Name: "small-plans-take-any-time", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "|| q.clock.Since(s.began) >= largeTurn && !q.begin(s.key()) {",
			New:    "{",
			Killer: unit("pkg/controller/installplan", "TestASmallPlanThatTakesLongWaitsForLargeOnes"),
		},
		{
			Name: "small-plans-do-not-wait-at-first", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "len(s.steps) <= largeSteps && !q.isWaiting(s.key()) || ",
			New:    "len(s.steps) <= largeSteps || ",
			Killer: unit("pkg/controller/installplan", "TestASmallPlanThatTakesLongWaitsForLargeOnes"),
		},
		{
			Name: "rules-that-remain-wait-for-the-next-run", Rule: 6, File: turn,
			Old:    "	case kit.Is[*execute.RemainingError](err): // ",
			New:    "	case false: // ",
			Killer: unit(pkg, "TestARoleWhoseRulesRemainIsTriedInEachTurn"),
		},
		{
			Name: "missing-permissions-of-any-number-are-kept", Rule: 8, File: "pkg/controller/csv/coverage.go",
			Old:    "lacking[:min(len(lacking), maxMissing-len(out[q].missing))]...)",
			New:    "lacking...)",
			Killer: unit(pkg, "TestTheLinesOfMissingPermissionsAreLimited"),
		},
		{
			Name: "large-objects-are-tried-in-each-turn", Rule: 8, File: "pkg/controller/csv/turns.go",
			Old:    "		out.kind = &apply.TooLargeError{}\n",
			New:    "",
			Killer: unit("pkg/controller/csv", "TestWhatIsRememberedOfARefusalIsSmallAndOfItsKind"),
		},
	}
}
