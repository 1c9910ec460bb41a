package mutants

// excess returns the mutants of the guards that decide which permissions of an operator are removed because they exceed
// its account.
func excess() []Mutant {
	return []Mutant{
		{
			Name: "permissions-are-removed-at-once", Rule: 6, File: "pkg/controller/csv/excess.go",
			Old:    "if left := due.Sub(s.facts.Now); left > 0 {",
			New:    "if left := due.Sub(s.facts.Now); left > 1<<62 {",
			Killer: unit("pkg/controller/csv", "TestAnExcessIsRemovedAfterTheGracePeriod"),
		},
		{
			Name: "permissions-are-removed-by-the-cache", Rule: 1, File: "pkg/controller/csv/excess.go",
			Old:    "confirmed := is.Confirmed",
			New:    "confirmed := is.Found",
			Killer: unit("pkg/controller/csv", "TestWhatStaysAfterTheGracePeriod"),
		},
		{
			Name: "an-account-that-may-grant-is-exceeded", Rule: 1, File: "pkg/install/excess/confirm.go",
			Old:    "err != nil || is != denied {",
			New:    "err != nil || is != denied && ctx == nil {",
			Killer: unit("pkg/install/excess", "TestTheAPIServerConfirmsAnExcess"),
		},
		{
			Name: "large-rules-do-not-exceed-the-account", Rule: 1, File: "pkg/install/excess/find.go",
			Old:    "	if tooLarge {",
			New:    "	if tooLarge && obj == nil {",
			Killer: unit("pkg/install/excess", "TestPaddingARoleDoesNotHideAnExcess"),
		},
		{
			Name: "large-rules-are-never-confirmed", Rule: 1, File: "pkg/install/excess/confirm.go",
			Old:    "	return o.Unevaluated || is == undecided",
			New:    "	return false && o.Unevaluated || is == undecided",
			Killer: unit("pkg/install/excess", "TestPaddingARoleDoesNotHideAnExcess"),
		},
		{
			Name: "rules-that-cannot-be-split-are-omitted", Rule: 8, File: "pkg/rbac/lines.go",
			Old:    "	if len(all) < 2 || fits(rule) {\n		return yield(rule)\n	}",
			New:    "	if fits(rule) {\n		return yield(rule)\n	}\n	if len(all) < 2 {\n		return true\n	}",
			Killer: unit("pkg/install/excess", "TestPaddingARoleDoesNotHideAnExcess"),
		},
		{
			Name: "rules-that-are-not-kept-are-covered", Rule: 1, File: "pkg/install/excess/parts.go",
			Old:    "n > maxParts || rbac.TooLarge(part) {",
			New:    "n > maxParts {",
			Killer: unit("pkg/install/excess", "TestPaddingARoleDoesNotHideAnExcess"),
		},
		{
			Name: "what-is-missing-of-all-objects-is-unlimited", Rule: 8, File: "pkg/install/excess/live.go",
			Old:    "len(out) == maxLines || size > maxLineBytes {",
			New:    "size < 0 {",
			Killer: unit("pkg/install/excess", "TestWhatIsMissingIsLimited"),
		},
		{
			Name: "aggregated-clusterroles-stay", Rule: 2, File: "pkg/install/excess/find.go",
			Old:    "!isAggregated(role) && (role",
			New:    "isAggregated(role) || (role",
			Killer: unit("pkg/install/excess", "TestAggregatedClusterRolesExceedTheAccount"),
		},
		{
			Name: "bindings-of-remit-justify-themselves", Rule: 2, File: "pkg/install/excess/bounds.go",
			Old:    "return !ok || !ownerutil.IsProven(obj, proofs)",
			New:    "return !ok || obj != nil",
			Killer: unit("pkg/install/excess", "TestBindingsOfRemitDoNotJustifyThemselves"),
		},
		{
			Name: "reviews-count-bindings-of-remit", Rule: 2, File: "pkg/install/excess/confirm.go",
			Old:    "	if isOwed {\n		return ofRemit, nil",
			New:    "	if isOwed {\n		return another, nil",
			Killer: unit("pkg/install/excess", "TestBindingsOfRemitDoNotJustifyThemselves"),
		},
		{
			Name: "questions-that-are-left-are-allowed", Rule: 3, File: "pkg/install/excess/confirm.go",
			Old:    "	return o.Unevaluated || is == undecided && c.account.isTooLarge(o.Scope), nil",
			New:    "	return o.Unevaluated, nil",
			Killer: unit("pkg/install/excess", "TestManyRolesOfTheAccountDoNotKeepAnExcess"),
		},
		{
			Name: "other-problems-hide-an-excess", Rule: 6, File: "pkg/controller/csv/next.go",
			Old:    "t := reportExcess(f, reportProgress(f, decide(f)))",
			New:    "t := reportProgress(f, decide(f))",
			Killer: unit("pkg/controller/csv", "TestNoOtherProblemHidesAnExcess"),
		},
		{
			Name: "permissions-of-others-are-removed", Rule: 7, File: "pkg/install/excess/live.go",
			Old:    "if obj != nil && owns(obj) {",
			New:    "if obj != nil {",
			Killer: unit("pkg/controller/csv", "TestWhatStaysAfterTheGracePeriod"),
		},
		{
			Name: "the-annotation-is-read-from-the-cache", Rule: 3, File: "pkg/lib/scoped/bound.go",
			Old:    " && (b.KeptBy == \"\") == (other.KeptBy == \"\")",
			New:    "",
			Killer: unit("pkg/controller/csv", "TestWhatStaysAfterTheGracePeriod"),
		},
		{
			Name: "permissions-are-compared-with-an-earlier-account", Rule: 3, File: "pkg/lib/scoped/bound.go",
			Old:    "return slices.Equal(b.Accounts, other.Accounts) && ",
			New:    "return len(b.Accounts) == len(other.Accounts) && ",
			Killer: unit("pkg/controller/csv", "TestWhatStaysAfterTheGracePeriod"),
		},
		{
			Name: "a-forged-status-ends-the-grace-period", Rule: 3, File: "pkg/install/excess/timers.go",
			Old:    "*end = latest(reported.Add(grace), now.Add(min(grace, observation)))",
			New:    "*end = reported.Add(grace)",
			Killer: unit("pkg/install/excess", "TestTheGracePeriod"),
		},
		{
			Name: "a-forged-status-restarts-the-grace-period", Rule: 3, File: "pkg/install/excess/timers.go",
			Old:    "		if !end.IsZero() {",
			New:    "		if false {",
			Killer: unit("pkg/install/excess", "TestTheGracePeriod"),
		},
		{
			Name: "shrinking-needs-no-finding", Rule: 6, File: "pkg/install/warrant/warrant.go",
			Old:    "	case d == Shrink && !f.Exceeds && !f.Unconfirmed:",
			New:    "	case false:",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
		{
			Name: "an-object-that-changes-is-deleted", Rule: 6, File: "pkg/lib/apply/exact.go",
			Old:    "client.Preconditions{UID: &uid, ResourceVersion: &version}",
			New:    "client.Preconditions{UID: &uid}, client.GracePeriodSeconds(len(version)*0)",
			Killer: unit("pkg/lib/apply", "TestDeletesOnlyWhatIsUnchanged"),
		},
		{
			Name: "tenants-keep-an-excess", Rule: 3, File: "manifests/policy/excess.yaml",
			Old:    "resource(request.resource.resource).check('keep-excess')",
			New:    "resource(request.resource.resource).namespace(request.namespace).check('keep-excess')",
			Killer: unit("test/author", "TestOnlyAnAdministratorKeepsAnExcess"),
		},
		{
			Name: "what-an-earlier-account-granted-is-ignored", Rule: 2, File: "pkg/install/deployment/identity.go",
			Old:    "return inherited(b) || granted[apply.Describe(b)]",
			New:    "return inherited(b)",
			Killer: unit("pkg/install/deployment", "TestWhatAnEarlierAccountGrantedCounts"),
		},
		{
			Name: "new-versions-count-as-unchanged", Rule: 2, File: "pkg/controller/csv/warrant.go",
			Old:    "Unchanged: s.facts.Same, Confirm:",
			New:    "Unchanged: true, Confirm:",
			Killer: unit("pkg/controller/csv", "TestANewVersionDoesNotGetWhatAnEarlierAccountGranted"),
		},
		{
			Name: "what-the-lineage-beside-it-granted-is-ignored", Rule: 2, File: "pkg/install/deployment/identity.go",
			Old:    "if by.Owner.Owns(b) || by.Owner.Extension != \"\" || by.Owner.Proofs == nil {",
			New:    "if b != nil {",
			Killer: unit("pkg/install/deployment", "TestWhatAnEarlierAccountGrantedCounts"),
		},
		{
			Name: "installs-elsewhere-delay-an-operator", Rule: 8, File: "pkg/install/deployment/identity.go",
			Old:    "return ownerutil.OwnerIn(b, by.Owner.Namespace, by.Owner.Since, by.Owner.Proofs)",
			New:    "return by.Owner, ownerutil.IsProven(b, by.Owner.Proofs)",
			Killer: unit("pkg/install/deployment", "TestWhatAnEarlierAccountGrantedCounts"),
		},
		{
			Name: "unchanged-operators-are-refused", Rule: 0, File: "pkg/install/deployment/identity.go",
			Old:    "	if by.Unchanged {",
			New:    "	if by.Unchanged && key.Name == \"\" {",
			Killer: unit("pkg/controller/csv", "TestAnUnchangedOperatorKeepsWhatAnEarlierAccountGranted"),
		},
		{
			Name: "one-allowed-permission-covers-a-binding", Rule: 2, File: "pkg/preflight/exceeding.go",
			Old:    "Missing: whole[f.Cause], Cause",
			New:    "Missing: whole[f.Cause][:1], Cause",
			Killer: unit("pkg/preflight", "TestTheAPIServerConfirmsWhatExceeds"),
		},
		{
			Name: "permissions-of-extensions-are-removed-at-once", Rule: 6, File: "pkg/controller/clusterextension/excess.go",
			Old:    "if left := due.Sub(s.Clock.Now()); left > 0 {",
			New:    "if left := due.Sub(s.Clock.Now()); left > 1<<62 {",
			Killer: unit("pkg/controller/clusterextension", "TestAnExcessIsReportedAtOnceAndKeptOnRequest"),
		},
	}
}
