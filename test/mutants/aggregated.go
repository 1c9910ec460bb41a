package mutants

// aggregated returns the mutants of the rule that a ClusterRole to which strangers may add rules neither stops its holders nor opens the
// bound.
func aggregated() []Mutant {
	const rbac, preflight, excess, csv = "pkg/rbac", "pkg/preflight", "pkg/install/excess", "pkg/controller/csv"
	const cover, hidden = "TestAClusterRoleWithTooManyRulesIsCoveredOnlyByItself", "TestRulesThatStrangersAddToAClusterRoleDoNotHideOthers"
	const origin = "TestAPermissionOfUnknownOriginIsReadFromTheAPIServer"
	const keeps = "TestRulesThatStrangersAddToTheAccountsClusterRolesRemoveNothing"
	return []Mutant{
		{
			Name: "clusterroles-with-too-many-rules-hide-everything", Rule: 8, File: rbac + "/gather.go",
			Old:    "		} else if g.values += p.values; g.values > MaxValues {",
			New:    "		}\n		if g.values += p.values; g.values > MaxValues {",
			Killer: unit(rbac, hidden),
		},
		{
			Name: "small-clusterroles-are-omitted-first", Rule: 8, File: rbac + "/gather.go",
			Old:    "cmp.Or(b.values-a.values, ",
			New:    "cmp.Or(a.values-b.values, ",
			Killer: unit(rbac, hidden),
		},
		{
			Name: "rules-that-are-not-kept-exceed-nobody", Rule: 1, File: rbac + "/uncovered.go",
			Old:    "func(role string) bool { return !l.Includes(may, role) }",
			New:    "func(role string) bool { return l.Includes(may, role) && false }",
			Killer: unit(rbac, cover),
		},
		{
			Name: "only-equal-rules-cover-a-clusterrole", Rule: 8, File: rbac + "/included.go",
			Old:    "	if h.bound[role] || h.Set()",
			New:    "	if h.Set()",
			Killer: unit(rbac, cover),
		},
		{
			Name: "urls-are-included-in-everything", Rule: 1, File: rbac + "/included.go",
			Old:    "	if h.Namespace != ClusterScope {",
			New:    "	if true {",
			Killer: unit(rbac, cover),
		},
		{
			Name: "clusterroles-whose-rules-are-known-include-others", Rule: 1, File: rbac + "/included.go",
			Old:    "slices.Contains(h.NotKept, role)",
			New:    "h.bound[role]",
			Killer: unit(rbac, cover),
		},
		{
			Name: "labels-that-anybody-writes-include-a-clusterrole", Rule: 3, File: rbac + "/included.go",
			Old:    "	if err != nil || !aggregates(role) {",
			New:    "	if err != nil {",
			Killer: unit(rbac, cover),
		},
		{
			Name: "omitted-namespaces-are-not-asked-about", Rule: 8, File: rbac + "/gettable.go",
			Old:    "isBound && len(l.LowerBound(s, name).NotKept) > 0 {",
			New:    "isBound && len(l.LowerBound(s, name).NotKept) > MaxValues {",
			Killer: unit(preflight, "TestTheAPIServerKnowsWhatAnAccountWithABloatedClusterRoleMay"),
		},
		{
			Name: "missing-rules-are-known-without-the-clusterrole", Rule: 8, File: preflight + "/report.go",
			Old:    "			f.Why = h.notKept()\n",
			New:    "			f.Why = \"\"\n",
			Killer: unit(preflight, "TestTheAPIServerKnowsWhatAnAccountWithABloatedClusterRoleMay"),
		},
		{
			Name: "answers-about-a-clusterrole-that-is-not-kept-are-kept", Rule: 0, File: preflight + "/report.go",
			Old:    "scopes[namespace].incomplete && len(scopes[namespace].NotKept) > 0",
			New:    "scopes[namespace].incomplete && false",
			Killer: unit(preflight, "TestTheAPIServerKnowsWhatAnAccountWithABloatedClusterRoleMay"),
		},
		{
			Name: "a-bloated-clusterrole-requires-every-identity", Rule: 8, File: preflight + "/identities.go",
			Old:    "			out = append(out, tokenNeed(n, key, may()))\n			continue\n",
			New:    "			return []Need{anyIdentity(n)}, nil\n",
			Killer: unit(preflight, "TestABloatedClusterRoleDoesNotRequireEveryIdentity"),
		},
		{
			Name: "an-unknown-identity-requires-nothing", Rule: 1, File: preflight + "/identities.go",
			Old:    "			out = append(out, tokenNeed(n, key, may()))\n",
			New:    "",
			Killer: unit(preflight, "TestABloatedClusterRoleDoesNotRequireEveryIdentity"),
		},
		{
			Name: "bindings-to-a-bloated-clusterrole-are-refused-for-good", Rule: 8, File: preflight + "/granted.go",
			Old:    "	case r.isNotKept(binding, grant):\n",
			New:    "	case r.isNotKept(binding, grant) && false:\n",
			Killer: unit(preflight, "TestABindingToABloatedClusterRoleIsNotRefused"),
		},
		{
			Name: "bindings-to-the-accounts-own-clusterrole-exceed-it", Rule: 8, File: excess + "/find.go",
			Old:    "	if grant.ClusterRole != \"\" && a.Includes != nil && ",
			New:    "	if false && ",
			Killer: unit(excess, keeps),
		},
		{
			Name: "the-first-undecided-permission-ends-the-examination", Rule: 6, File: excess + "/confirm.go",
			Old:    "case is == undecided && c.asked >= c.limit:\n				c",
			New:    "case is == undecided && c.asked >= 0*c.limit:\n				c",
			Killer: unit(excess, "TestADeniedPermissionIsFoundAfterOthers"),
		},
		{
			Name: "an-object-uses-all-questions", Rule: 8, File: excess + "/confirm.go",
			Old:    "c.limit = maxReviews; isShare {",
			New:    "c.limit = maxReviews; false && isShare {",
			Killer: unit(excess, "TestAnObjectHasAShareOfTheQuestions"),
		},
		{
			Name: "attempts-follow-each-other-at-the-same-rate", Rule: 8, File: excess + "/timers.go",
			Old:    "firstPause<<min(n-1, 8)",
			New:    "firstPause<<min(0*n, 8)",
			Killer: unit(excess, "TestAttemptsThatRemoveNothingArePaused"),
		},
		{
			Name: "any-size-of-objects-is-read-for-a-removal", Rule: 8, File: excess + "/live.go",
			Old:    "if size > maxRead && ",
			New:    "if size > 100*maxRead && ",
			Killer: unit(excess, "TestLargeObjectsAreReadInParts"),
		},
		{
			Name: "users-of-a-target-crowd-an-operator", Rule: 8, File: "pkg/controller/csv/coverage.go",
			Old:    "	case q.hasBound(namespace, rules):",
			New:    "	case false && q.hasBound(namespace, rules):",
			Killer: unit("pkg/controller/csv", "TestWhoCrowdsATargetDoesNotStopTheOperator"),
		},
		{
			Name: "what-is-bound-in-a-crowded-target-is-not-compared", Rule: 8, File: "pkg/controller/csv/coverage.go",
			Old:    "isKnown && len(has.Set().Missing(rules)) == 0",
			New:    "isKnown || len(has.Set().Missing(rules)) == 0",
			Killer: unit("pkg/controller/csv", "TestWhatIsMissingInACrowdedTargetIsMissing"),
		},
		{
			Name: "the-same-objects-are-examined-each-time", Rule: 6, File: excess + "/find.go",
			Old:    "others := inAnyOrder(len(out) - first)[:maxRemoved-first]",
			New:    "others := inAnyOrder(maxRemoved - first)",
			Killer: unit(excess, "TestABatchContainsOtherObjectsEachTime"),
		},
		{
			Name: "the-same-parts-are-read-each-time", Rule: 6, File: excess + "/live.go",
			Old:    "for i, at := range inAnyOrder(len(cached)) {",
			New:    "for i, at := range slices.Sorted(slices.Values(inAnyOrder(len(cached)))) {",
			Killer: unit(excess, "TestLargeObjectsAreReadInParts"),
		},
		{
			Name: "a-part-of-a-batch-counts-as-all", Rule: 6, File: excess + "/examine.go",
			Old:    "isDecided && read == len(found)",
			New:    "isDecided && read == len(batch)",
			Killer: unit(excess, "TestExaminedSaysWhatIsLeft"),
		},
		{
			Name: "an-attempt-that-finds-nothing-is-repeated-at-once", Rule: 8, File: "pkg/controller/csv/excess.go",
			Old:    "	r.pause(s, p, told{report: report, isComplete: is.IsComplete})",
			New:    "	s.reportAt(p, told{report: report, isComplete: is.IsComplete}.report)",
			Killer: unit("pkg/controller/csv", "TestAnAttemptThatFindsNothingIsPaused"),
		},
		{
			Name: "what-the-api-server-allows-stops-an-operator", Rule: 8, File: "pkg/controller/csv/excess.go",
			Old:    "if last.exceeds {",
			New:    "if true {",
			Killer: unit("pkg/controller/csv", "TestWhatTheAPIServerAllowsStopsNothing"),
		},
		{
			Name: "a-conflict-counts-as-a-removal", Rule: 9, File: excess + "/delete.go",
			Old:    "remain, why = append(remain, o), err",
			New:    "if why = err; !apierrors.IsConflict(err) {\n				remain = append(remain, o)\n			}",
			Killer: unit(excess, "TestWhatChangesIsNotRemoved"),
		},
		{
			Name: "undecided-targets-keep-an-excess", Rule: 6, File: "pkg/controller/operatorgroup/reconciler.go",
			Old:    "	if errors.As(err, &f.Undecided) {",
			New:    "	if errors.As(err, &f.Undecided) && false {",
			Killer: unit("pkg/controller/operatorgroup", "TestUndecidedTargetsAreShownAndKeepNoPermissions"),
		},
		{
			Name: "undecided-targets-are-none", Rule: 0, File: "pkg/controller/operatorgroup/status.go",
			Old:    "	if f.Undecided == nil {\n		out.Namespaces",
			New:    "	{\n		out.Namespaces",
			Killer: unit("pkg/controller/operatorgroup", "TestUndecidedTargetsAreShownAndKeepNoPermissions"),
		},
		{
			Name: "what-exists-in-undecided-targets-is-removed", Rule: 0, File: "pkg/controller/operatorgroup/publish.go",
			Old:    " && f.Undecided == nil",
			New:    "",
			Killer: unit("pkg/controller/operatorgroup", "TestUndecidedTargetsAreShownAndKeepNoPermissions"),
		},
		{
			Name: "a-permission-of-unknown-origin-is-denied", Rule: 6, File: excess + "/confirm.go",
			Old:    "	case origin == itsOwn:",
			New:    "	case false:",
			Killer: unit(excess, origin),
		},
		{
			Name: "a-permission-of-unknown-origin-is-allowed", Rule: 1, File: excess + "/confirm.go",
			Old:    "	case ok && origin == another:",
			New:    "	case ok:",
			Killer: unit(excess, origin),
		},
		{
			Name: "clusterroles-that-cannot-be-read-grant-nothing", Rule: 6, File: excess + "/confirm.go",
			Old:    "client.IgnoreNotFound(err) != nil {\n				return nil, fmt.Errorf(\"get ClusterRole",
			New:    "client.IgnoreNotFound(err) != nil && false {\n				return nil, fmt.Errorf(\"get ClusterRole",
			Killer: unit(excess, origin),
		},
		{
			Name: "any-number-of-omitted-clusterroles-is-read", Rule: 8, File: excess + "/confirm.go",
			Old:    "of.roles[:min(len(of.roles), maxOmitted)]",
			New:    "of.roles[:max(len(of.roles), 0*maxOmitted)]",
			Killer: unit(excess, origin),
		},
		{
			Name: "too-many-roles-justify-an-excess", Rule: 1, File: excess + "/confirm.go",
			Old:    "held.Partial || isTooLarge || held",
			New:    "held",
			Killer: unit(excess, origin),
		},
		{
			Name: "an-excess-is-removed-without-reading-rbac", Rule: 6, File: excess + "/confirm.go",
			Old:    "	case unread != nil && !isTooLarge:",
			New:    "	case false:",
			Killer: unit(excess, origin),
		},
		{
			Name: "roles-of-a-namespace-end-permissions-in-the-cluster", Rule: 6, File: excess + "/confirm.go",
			Old:    "isTooLarge && c.account.Granted(rbac.ClusterScope).Set().Covers(rules):",
			New:    "false:",
			Killer: unit(excess, origin),
		},
		{
			Name: "permissions-that-are-not-examined-are-removed", Rule: 6, File: excess + "/confirm.go",
			Old:    "	case ok && origin == unknown:",
			New:    "	case false:",
			Killer: unit(excess, "TestPermissionsThatAreNotExaminedRemoveNothing"),
		},
		{
			Name: "one-object-uses-up-what-is-examined", Rule: 1, File: excess + "/confirm.go",
			Old:    "left := maxExamined / len(c.objs)",
			New:    "left := max(maxExamined, len(c.objs)) - len(out)",
			Killer: unit(excess, "TestPermissionsThatAreNotExaminedRemoveNothing"),
		},
		{
			Name: "permissions-of-the-account-use-up-the-questions", Rule: 1, File: excess + "/confirm.go",
			Old:    "		c.answers[key] = allowed\n		return allowed, nil\n",
			New:    "		c.asked++\n		c.answers[key] = allowed\n		return allowed, nil\n",
			Killer: unit(excess, "TestPermissionsOfTheAccountAreNotAskedAbout"),
		},
		{
			Name: "omitted-clusterroles-of-remit-are-not-read", Rule: 1, File: excess + "/confirm.go",
			Old:    "{{bound, ofRemit}, {own, itsOwn}}",
			New:    "{{own, itsOwn}}",
			Killer: unit(excess, origin),
		},
		{
			Name: "too-many-omitted-clusterroles-of-remit-grant-nothing", Rule: 1, File: excess + "/confirm.go",
			Old:    "	if len(bound) > maxOmitted {",
			New:    "	if false {",
			Killer: unit(excess, origin),
		},
		{
			Name: "roles-of-a-namespace-omit-clusterroles", Rule: 1, File: rbac + "/gather.go",
			Old:    "		if p.clusterRole != \"\" {\n			total += p.values",
			New:    "		if true {\n			total += p.values",
			Killer: unit(rbac, hidden),
		},
		{
			Name: "unasked-questions-keep-a-webhook", Rule: 1, File: preflight + "/interceptions.go",
			Old:    "		case !report.Clear(), report.Unasked:",
			New:    "		case !report.Clear():",
			Killer: unit(preflight, "TestManyQuestionsDoNotKeepAWebhook"),
		},
		{
			Name: "many-permissions-of-an-identity-cut-a-webhook", Rule: 8, File: preflight + "/interceptions.go",
			Old:    "		if err == nil && report.Unasked {",
			New:    "		if false {",
			Killer: unit(preflight, "TestManyQuestionsDoNotKeepAWebhook"),
		},
		{
			Name: "namespaces-that-are-not-decided-are-no-targets", Rule: 6, File: preflight + "/namespacefilter.go",
			Old:    "		if len(report.Unknown) > 0 {",
			New:    "		if false {",
			Killer: unit(preflight, "TestNamespacesThatAreNotDecidedAreAnError"),
		},
		{
			Name: "any-number-of-namespaces-is-asked-about", Rule: 8, File: preflight + "/namespacefilter.go",
			Old:    "	if len(namespaces) > maxAsked {",
			New:    "	if false {",
			Killer: unit(preflight, "TestNamespacesThatAreNotDecidedAreAnError"),
		},
		{
			Name: "copies-are-deleted-with-a-bloated-clusterrole", Rule: 6, File: "pkg/controller/copiedcsv/pass.go",
			Old:    " || p.want.isUnknown(found.Namespace)",
			New:    "",
			Killer: unit("pkg/controller/copiedcsv", "TestCopiesAreKeptWhileAClusterRoleIsNotKept"),
		},
		{
			Name: "unasked-questions-remove-what-the-account-may-have", Rule: 6, File: excess + "/confirm.go",
			Old:    "	_, tooLarge := errors.AsType[*rbac.LimitError](errors.Join(a.Granted(scope).ReadErrors...))\n	return tooLarge\n",
			New:    "	granted := a.Granted(scope)\n	_, tooLarge := errors.AsType[*rbac.LimitError](errors.Join(granted.ReadErrors...))\n	return tooLarge || len(granted.NotKept) > 0\n",
			Killer: unit(excess, "TestManyRolesOfTheAccountDoNotKeepAnExcess"),
		},
		{
			Name: "what-is-not-kept-cannot-be-granted", Rule: 8, File: csv + "/coverage.go",
			Old:    "		case len(may.NotKept) > 0:\n",
			New:    "		case false:\n",
			Killer: unit(csv, "TestWhatAnAccountWithABloatedClusterRoleMayGrantIsAsked"),
		},
		{
			Name: "catalogs-of-tenants-are-served-to-all", Rule: 8, File: "pkg/catalog/pull/pull.go",
			Old:    "o.Extract, fmt.Sprint(o.MaxFiles, o.MaxContents, o.MaxUnpacked, o.MaxNames))",
			New:    "o.Extract, fmt.Sprint())",
			Killer: unit("pkg/catalog/pull", "TestCatalogsThatWereReadWithOtherLimitsAreNotShared"),
		},
		{
			Name: "all-labels-are-sorted", Rule: 8, File: "pkg/controller/metadata.go",
			Old:    "len(out) == 2*n {",
			New:    "len(out) < 0 {",
			Killer: unit("pkg/controller", "TestTheSmallestKeysAreKeptWithoutSortingAll"),
		},
		{
			Name: "undecided-targets-are-not-tried-again", Rule: 0, File: "pkg/controller/subscription/world.go",
			Old:    "		w.after = unreadablePause\n	case err != nil:",
			New:    "	case err != nil:",
			Killer: unit("pkg/controller/subscription", "TestUndecidedTargetsAreTriedAgain"),
		},
	}
}
