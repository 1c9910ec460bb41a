package mutants

// targets returns the mutants of the rule that a user of one target affects only that target.
func targets() []Mutant {
	const (
		test        = "TestACollisionInATargetAffectsOnlyThisTarget"
		excessTest  = "TestAnExcessInATargetAffectsOnlyThisTarget"
		removalTest = "TestATargetDelaysARemovalOnlyForAWhile"
		refusal     = "TestARefusalInATargetAffectsOnlyThisTarget"
		large       = "TestALargeObjectInATargetAffectsOnlyThisTarget"
	)
	return []Mutant{
		{
			Name: "one-target-holds-back-plans", File: "pkg/step/execute/targets.go",
			Old:    "occupied[of(*s)] = true",
			New:    "occupied[of(*s)] = false",
			Killer: unit("pkg/controller/installplan", test),
		},
		{
			Name: "finalizers-in-a-target-hold-back-plans", File: "pkg/step/execute/targets.go",
			Old:    "return delayed || refused || tooLarge ||",
			New:    "return delayed && refused || refused || tooLarge ||",
			Killer: unit("pkg/step/execute", "TestWhatAUserOfATargetCanOccupyIsSkipped"),
		},
		{
			Name: "large-roles-in-a-target-hold-back-csvs", Rule: 8, File: "pkg/step/execute/targets.go",
			Old:    "	return delayed || refused || tooLarge",
			New:    "	return delayed || refused || tooLarge && delayed",
			Killer: unit("pkg/step/execute", large),
		},
		{
			Name: "large-roles-in-a-target-end-plans", Rule: 8, File: "pkg/step/execute/execute.go",
			Old:    "	if Occupies(o.err) && IsForTarget(s.Object, s.Owner) {",
			New:    "	if false {",
			Killer: unit("pkg/step/execute", large),
		},
		{
			Name: "unsealed-roles-are-filled-among-many-bindings", Rule: 6, File: "pkg/step/execute/seal.go",
			Old:    "	r.few = true\n",
			New:    "",
			Killer: unit("pkg/step/execute", "TestARoleThatCannotBeSealedIsNotFilledAmongManyBindings"),
		},
		{
			Name: "many-objects-in-targets-end-plans", Rule: 8, File: "pkg/step/execute/execute.go",
			Old:    "	if Occupies(o.err) && IsForTarget(s.Object, s.Owner) {",
			New:    "	if _, tooLarge := o.err.(*apply.TooLargeError); tooLarge && IsForTarget(s.Object, s.Owner) {",
			Killer: unit("pkg/step/execute", "TestTooManyObjectsInTargetsDoNotStopTheInstall"),
		},
		{
			Name: "objects-in-targets-may-be-large", Rule: 8, File: "pkg/step/execute/memory.go",
			Old:    "cost > limit {",
			New:    "cost > 1000*limit {",
			Killer: unit("pkg/step/execute", large),
		},
		{
			Name: "objects-in-targets-take-all-memory", Rule: 8, File: "pkg/step/execute/memory.go",
			Old:    "	if m.targets+cost > MaxForTargets {",
			New:    "	if m.targets > 1000*MaxForTargets {",
			Killer: unit("pkg/step/execute", "TestTheMemoryOfObjectsInTargetsIsLimited"),
		},
		{
			Name: "all-bindings-of-a-target-are-listed", Rule: 8, File: "pkg/step/execute/list.go",
			Old:    "		limit = maxInTarget\n",
			New:    "",
			Killer: unit("pkg/step/execute", "TestManyBindingsInATargetAffectOnlyThisTarget"),
		},
		{
			Name: "failed-lists-hold-back-csvs", Rule: 8, File: "pkg/step/execute/list.go",
			Old:    "		return nil, &apply.DelayedError{Why: withoutURL(err).Error()}",
			New:    "		return nil, withoutURL(err)",
			Killer: unit("pkg/step/execute", "TestAFailedListInATargetAffectsOnlyThisTarget"),
		},
		{
			Name: "bindings-are-listed-for-each-role", File: "pkg/step/execute/list.go",
			Old:    "	if r.Checked.has(role.GetNamespace()) {",
			New:    "	if r.Checked.has(\"\") {",
			Killer: unit("pkg/step/execute", "TestTheBindingsOfATargetAreListedOnceForItsRoles"),
		},
		{
			Name: "crowded-targets-are-not-last", File: "pkg/step/execute/list.go",
			Old:    "		if isCrowded[namespace] {",
			New:    "		if isCrowded[\"\"] {",
			Killer: unit("pkg/step/execute", "TestCrowdedTargetsAreWrittenLast"),
		},
		{
			Name: "collisions-at-home-are-skipped", File: "pkg/step/execute/targets.go",
			Old:    ` && obj.GetNamespace() != owner.Namespace`,
			New:    "",
			Killer: unit("pkg/controller/installplan", test),
		},
		{
			Name: "one-target-holds-back-csvs", File: "pkg/controller/csv/prepare.go",
			Old:    "case isForTarget && execute.Occupies(err):",
			New:    "case false:",
			Killer: unit("pkg/controller/csv", test),
		},
		{
			Name: "an-excess-in-one-target-fails-csvs", Rule: 6, File: "pkg/controller/csv/excess.go",
			Old:    "s.facts.Shrunk = s.facts.Shrunk || !p.elsewhere",
			New:    "s.facts.Shrunk = true",
			Killer: unit("pkg/controller/csv", excessTest),
		},
		{
			Name: "an-excess-elsewhere-is-kept", Rule: 6, File: "pkg/controller/csv/excess.go",
			Old:    "s.isElsewhere(namespace) == p.elsewhere && !isLeft {",
			New:    "s.isElsewhere(namespace) == p.elsewhere && !p.elsewhere && !isLeft {",
			Killer: unit("pkg/controller/csv", excessTest),
		},
		{
			Name: "finalizers-outside-the-targets-count", Rule: 6, File: "pkg/controller/csv/excess.go",
			Old:    "isLeft := p.elsewhere &&",
			New:    "isLeft := p.csv.Name == \"\" && p.elsewhere &&",
			Killer: unit("pkg/controller/csv", excessTest),
		},
		{
			Name: "one-target-ends-the-grace-period-of-others", Rule: 6, File: "pkg/controller/csv/excess.go",
			Old:    "due := r.excess.Deadline(p, ",
			New:    "due := r.excess.Deadline(place{csv: p.csv}, ",
			Killer: unit("pkg/controller/csv", excessTest),
		},
		{
			Name: "an-excess-in-the-own-namespace-is-harmless", Rule: 6, File: "pkg/controller/csv/excess.go",
			Old:    "return namespace != rbac.ClusterScope && namespace != s.csv.Namespace",
			New:    "return namespace != rbac.ClusterScope",
			Killer: unit("pkg/controller/csv", "TestAnExcessAtHomeIsIndependentOfTargets"),
		},
		{
			Name: "one-target-without-permissions-stops-csvs", Rule: 6, File: "pkg/controller/csv/coverage.go",
			Old:    "s.withheld = barred",
			New:    "s.facts.Excess = excess",
			Killer: unit("pkg/controller/csv", excessTest),
		},
		{
			Name: "operators-without-permissions-are-installed", Rule: 1, File: "pkg/controller/csv/coverage.go",
			Old:    "slices.ContainsFunc(namespaces, isAtHome) || !r.hasBegun(ctx, s):",
			New:    "slices.ContainsFunc(namespaces, isAtHome):",
			Killer: unit("pkg/controller/csv", "TestMissingPermissionsInATargetPreventTheFirstWrite"),
		},
		{
			Name: "permissions-missing-at-home-are-withheld", Rule: 1, File: "pkg/controller/csv/coverage.go",
			Old:    "slices.ContainsFunc(namespaces, isAtHome) || !r.hasBegun(ctx, s):",
			New:    "slices.Contains(namespaces, \"x\") && isAtHome == nil || !r.hasBegun(ctx, s):",
			Killer: unit("pkg/controller/csv", "TestAnExcessIsRemovedAfterTheGracePeriod"),
		},
		{
			Name: "a-target-that-cannot-be-written-stops-csvs", Rule: 6, File: "pkg/controller/csv/prepare.go",
			Old:    "		s.occupy(missing.Namespace, &MissingPermissionsError{",
			New:    "		s.occupy(\"\", &MissingPermissionsError{",
			Killer: unit("pkg/controller/csv", "TestATargetWithoutPermissionToWriteAffectsOnlyThisTarget"),
		},
		{
			Name: "a-target-delays-removals-forever", Rule: 6, File: "pkg/controller/csv/finalize.go",
			Old:    "return left > 0",
			New:    "return true",
			Killer: unit("pkg/controller/csv", removalTest),
		},
		{
			Name: "a-target-delays-removals-without-a-wake", Rule: 6, File: "pkg/controller/csv/finalize.go",
			Old:    "s.wakeAfter(max(left, 0))",
			New:    "",
			Killer: unit("pkg/controller/csv", removalTest),
		},
		{
			Name: "removals-do-not-wait-for-cluster-scoped-objects", Rule: 6, File: "pkg/controller/csv/finalize.go",
			Old:    "return !s.isElsewhere(o.GetNamespace()) }) || s.csv.DeletionTimestamp == nil {",
			New:    "return !s.isElsewhere(o.GetNamespace()) }) && s.csv.DeletionTimestamp == nil {",
			Killer: unit("pkg/controller/csv", removalTest),
		},
		{
			Name: "a-quota-in-a-target-holds-back-csvs", File: "pkg/controller/csv/prepare.go",
			Old:    "cmp.Or(preflight.AtAdmission(err), execute",
			New:    "cmp.Or(preflight.AtAdmission(nil), execute",
			Killer: unit("pkg/controller/csv", refusal),
		},
		{
			Name: "a-quota-in-a-target-is-not-tried-again", File: "pkg/controller/csv/collisions.go",
			Old:    "	if isRechecked(why) {",
			New:    "	if isRechecked(why) && why == nil {",
			Killer: unit("pkg/controller/csv", refusal),
		},
		{
			Name: "a-quota-in-a-target-holds-back-plans", File: "pkg/controller/installplan/preflight.go",
			Old:    "	return preflight.AtAdmission(err)",
			New:    "	return nil",
			Killer: unit("pkg/controller/installplan", refusal),
		},
		{
			Name: "a-quota-after-the-dry-run-holds-back-plans", File: "pkg/controller/installplan/apply.go",
			Old:    "	if why == nil {\n		return done, err",
			New:    "	if why == nil || err != nil {\n		return done, err",
			Killer: unit("pkg/controller/installplan", refusal),
		},
		{
			Name: "undecided-permissions-occupy-a-target", File: "pkg/controller/installplan/preflight.go",
			Old:    "slices.ContainsFunc(s.findings.Unknown, isUndecided):",
			New:    "slices.ContainsFunc(s.findings.Unknown[:0], isUndecided):",
			Killer: unit("pkg/controller/installplan", "TestARefusalWhosePermissionsAreUndecidedOccupiesNoTarget"),
		},
		{
			Name: "missing-permissions-occupy-a-target", Rule: 3, File: "pkg/preflight/admission.go",
			Old:    "apply.IsCollision(err), lacksPermission(err):",
			New:    "apply.IsCollision(err), lacksPermission(err) && err == nil:",
			Killer: unit("pkg/preflight", "TestARefusalAtAdmissionIsNoMissingPermission"),
		},
		{
			Name: "webhooks-imitate-the-authorizer", File: "pkg/preflight/admission.go",
			Old:    "	if isByWebhook(err) {",
			New:    "	if isByWebhook(err) && err == nil {",
			Killer: unit("pkg/preflight", "TestARefusalAtAdmissionIsNoMissingPermission"),
		},
	}
}
