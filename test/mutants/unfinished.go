package mutants

// unfinished returns the mutants of the rules for versions whose plan was not completed.
func unfinished() []Mutant {
	const file, pkg = "pkg/controller/subscription/unfinished.go", "pkg/controller/subscription"
	return []Mutant{
		{
			Name: "the-status-does-not-show-that-a-deleted-plan-was-incomplete", Rule: 0, File: file,
			Old:    "sub.Status.CurrentCSV == installed.Name && status.PlanWasIncomplete(&sub.Status)",
			New:    "sub.Status.CurrentCSV == installed.Name && !status.PlanWasIncomplete(&sub.Status)",
			Killer: unit(pkg, "TestAnUnfinishedVersionGetsAnotherPlan"),
		},
		{
			Name: "the-plan-of-an-upgrade-makes-the-installed-version-unfinished", Rule: 0, File: file,
			Old:    "	return !follows && sub.Status.CurrentCSV == installed.Name && ",
			New:    "	return !follows && ",
			Killer: unit(pkg, "TestAVersionIsUnfinishedUntilItsPlanIsComplete"),
		},
		{
			Name: "a-complete-follow-up-is-followed", Rule: 0, File: file,
			Old:    "	follows := made.plan != nil && made.pin.Again == ref.Name",
			New:    "	follows := made.plan == nil && made.pin != nil && made.pin.Again == ref.Name",
			Killer: unit(pkg, "TestAVersionIsUnfinishedUntilItsPlanIsComplete"),
		},
		{
			Name: "a-recreated-subscription-does-not-finish-a-version", Rule: 0, File: file,
			Old:    "		return made.plan == nil && !w.findings().writes[installed.Name] && !hasSucceeded(installed)",
			New:    "		return false",
			Killer: unit(pkg, "TestAVersionIsUnfinishedUntilItsPlanIsComplete"),
		},
		{
			Name: "a-recreated-subscription-gets-a-plan-for-what-has-succeeded", Rule: 0, File: file,
			Old:    "writes[installed.Name] && !hasSucceeded(installed)",
			New:    "writes[installed.Name]",
			Killer: unit(pkg, "TestAVersionIsUnfinishedUntilItsPlanIsComplete"),
		},
		{
			Name: "a-failed-plan-finishes-a-version", Rule: 0, File: file,
			Old:    "made.pin.Bundle == installed.Name && made.plan.Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete:",
			New:    "made.pin.Bundle == installed.Name && inFlight(made.plan):",
			Killer: unit(pkg, "TestAVersionIsUnfinishedUntilItsPlanIsComplete"),
		},
		{
			Name: "unfinished-versions-get-no-plan", Rule: 0, File: "pkg/controller/subscription/advance.go",
			Old:    "slices.Concat(known.answer.Sets, w.toFinish(views, known.answer.Sets))",
			New:    "slices.Concat(known.answer.Sets, w.toFinish(nil, known.answer.Sets))",
			Killer: unit(pkg, "TestAnUnfinishedVersionGetsAnotherPlan"),
		},
		{
			Name: "an-unfinished-version-is-also-upgraded", Rule: 0, File: file,
			Old:    "				changes[c.Subscription.UID] = true",
			New:    "				changes[c.Subscription.UID] = false",
			Killer: unit(pkg, "TestAnUpgradeTakesPrecedenceOverFinishing"),
		},
		{
			Name: "an-earlier-complete-plan-finishes-a-version", Rule: 0, File: "pkg/controller/subscription/spent.go",
			Old:    "		return w.finishes(plan), nil",
			New:    "		return false, nil",
			Killer: unit(pkg, "TestASpentPlanDoesNotFinishAVersionThatALaterPlanWrote"),
		},
		{
			Name: "a-plan-without-content-is-not-reported-after-its-first-step", Rule: 0, File: "pkg/controller/subscription/advance.go",
			Old:    "		if v.plan != nil && inFlight(v.plan) && made.pin.Bundle != v.resolved {",
			New:    "		if v.plan != nil && inFlight(v.plan) {",
			Killer: unit(pkg, "TestReportsAnUnfinishedVersionThatCannotBeFinished"),
		},
		{
			Name: "an-install-without-a-plan-is-not-reported", Rule: 0, File: file,
			Old:    "	if !v.unfinished || v.plan != nil || v.deleting != \"\" {",
			New:    "	if v.unfinished || v.plan != nil || v.deleting != \"\" {",
			Killer: unit(pkg, "TestReportsAnUnfinishedVersionThatCannotBeFinished"),
		},
		{
			Name: "the-command-calls-every-deleted-plan-a-record", Rule: 0, File: "cmd/kubectl-remit/status/deleted.go",
			Old:    "		if status.PlanWasIncomplete(&sub.Status) {",
			New:    "		if false && status.PlanWasIncomplete(&sub.Status) {",
			Killer: unit("cmd/kubectl-remit/status", "TestNotesWhetherADeletedPlanWasComplete"),
		},
		{
			Name: "what-olm-wrote-about-a-deleted-plan-counts", Rule: 0, File: "pkg/lib/status/incomplete.go",
			Old:    "			c.Type == operatorsv1alpha1.SubscriptionInstallPlanMissing && c.Reason == names.ReasonPlanIncomplete:",
			New:    "			c.Type == operatorsv1alpha1.SubscriptionInstallPlanMissing && c.Reason != names.ReasonSuperseded:",
			Killer: unit(pkg, "TestAnOperatorOfWhichOLMDeletedThePlanGetsNoPlan"),
		},
		{
			Name: "remit-does-not-recognize-its-own-reason", Rule: 0, File: file,
			Old:    "	return &reasoned{names.ReasonPlanIncomplete, message.Lines(",
			New:    "	return &reasoned{names.ReasonPlanIncomplete[1:], message.Lines(",
			Killer: unit(pkg, "TestMissingPlan"),
		},
		{
			Name: "a-failed-plan-is-tried-again-without-its-predecessor", Rule: 0, File: file,
			Old:    "made.plan != nil && made.pin.Bundle == installed.Name {",
			New:    "made.plan != nil && made.pin.Bundle == \"\" {",
			Killer: unit(pkg, "TestAFailedPlanIsNotTriedAgainWithoutTheVersionThatItReplaced"),
		},
		{
			Name: "a-duplicate-finishes-a-version-too", Rule: 0, File: file,
			Old:    "	if installed == nil || w.isDuplicate(sub) {",
			New:    "	if installed == nil {",
			Killer: unit(pkg, "TestAVersionOfTwoSubscriptionsGetsOnePlan"),
		},
		{
			Name: "unfinished-versions-reveal-the-catalogs-of-others", Rule: 0, File: file,
			Old:    "	snapshot, ok := w.input.Snapshot(key)",
			New:    "	snapshot, ok := w.input.Catalogs.Get(key)",
			Killer: unit(pkg, "TestAnUnfinishedVersionDoesNotRevealCatalogsOfOtherNamespaces"),
		},
		{
			Name: "deprecations-reveal-the-catalogs-of-others", Rule: 0, File: "pkg/controller/subscription/deprecation.go",
			Old:    "	snapshot, ok := w.input.Snapshot(w.catalogOf(sub).key)",
			New:    "	snapshot, ok := w.input.Catalogs.Get(w.catalogOf(sub).key)",
			Killer: unit(pkg, "TestDeprecationConditions"),
		},
		{
			Name: "every-catalog-can-be-read", Rule: 0, File: "pkg/resolver/lookup.go",
			Old:    "	if in.Catalogs == nil || !in.canUse(key) {",
			New:    "	if in.Catalogs == nil {",
			Killer: unit(pkg, "TestDeprecationConditions"),
		},
	}
}
