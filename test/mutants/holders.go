package mutants

// holders returns the mutants of what limits the permissions that a reconcile prepares, and the work of event handlers.
func holders() []Mutant {
	return []Mutant{
		{
			Name: "the-objects-of-another-kind-are-listed", Rule: 4, File: "cmd/kubectl-remit/uninstall/gather.go",
			Old:    "gvk.GroupVersion().WithKind(gvk.Kind + \"List\")",
			New:    "gvk",
			Killer: unit("cmd/kubectl-remit/uninstall", "TestKeepsKindsThatAreCalledList"),
		},
		{
			Name: "objects-of-an-earlier-kind-count-as-checked", Rule: 4, File: "pkg/step/existing/read.go",
			Old:    "	if apihelpers.IsCRDConditionTrue(",
			New:    "	if false && apihelpers.IsCRDConditionTrue(",
			Killer: unit("pkg/step/existing", "TestADefinitionOfAKindThatAnotherOneHasHasNoObjects"),
		},
		{
			Name: "a-definition-has-the-objects-of-another-one", Rule: 1, File: "pkg/step/crd/stricter.go",
			Old:    "return gvk, mapping.Resource.Resource == d.Spec.Names.Plural, nil",
			New:    "return gvk, mapping != nil, nil",
			Killer: unit("pkg/step/existing", "TestADefinitionOfAKindThatAnotherOneHasHasNoObjects"),
		},
		{
			Name: "objects-of-another-definition-are-the-accounts", Rule: 1, File: "pkg/controller/installplan/definitions.go",
			Old:    "	case !isServed:\n		return \"its objects",
			New:    "	case !isServed && false:\n		return \"its objects",
			Killer: unit("pkg/controller/installplan", "TestWhatIsNotReadMayBeUsedByOthers"),
		},
		{
			Name: "objects-of-another-definition-are-uninstalled", Rule: 1, File: "cmd/kubectl-remit/uninstall/gather.go",
			Old:    "	case !isServed:",
			New:    "	case !isServed && false:",
			Killer: unit("cmd/kubectl-remit/uninstall", "TestObjectsOfAnotherDefinitionOfTheKindAreNotDeleted"),
		},
		{
			Name: "prepared-permissions-are-kept-without-limit", Rule: 8, File: "pkg/rbac/recent.go",
			Old:    "	for r.size > MaxRecent && len(r.order) > 1 {",
			New:    "	for r.size < 0 && len(r.order) > 1 {",
			Killer: unit("pkg/rbac", "TestKeepsFewLargePermissions"),
		},
		{
			Name: "equal-lengths-are-the-same-rules", Rule: 1, File: "pkg/rbac/recent.go",
			Old:    "len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])",
			New:    "len(a) == len(b)",
			Killer: unit("pkg/rbac", "TestTheSameRolesArePreparedOnce"),
		},
		{
			Name: "accounts-without-rules-are-read", Rule: 8, File: "pkg/install/rule_checker.go",
			Old:    "	if len(rules) == 0 {",
			New:    "	if len(rules) < 0 {",
			Killer: unit("pkg/install", "TestNoRulesAreCoveredWithoutReading"),
		},
		{
			Name: "permissions-of-all-scopes-stay-prepared", Rule: 8, File: "pkg/preflight/report.go",
			Old:    "			current.finish()\n",
			New:    "",
			Killer: unit("pkg/preflight", "TestPermissionsArePreparedForOneScopeAtATime"),
		},
		{
			Name: "namespaces-are-examined-in-any-order", Rule: 8, File: "pkg/install/excess/find.go",
			Old:    "	inOrder := byScope(objs)",
			New:    "	inOrder := objs",
			Killer: unit("pkg/install/excess", "TestExaminesOneNamespaceAfterTheOther"),
		},
		{
			Name: "ports-are-compared-in-pairs", Rule: 8, File: "pkg/install/serving/served.go",
			Old:    "		if key := (servedPort{name, p}); !known[key] {",
			New:    "		if key := (servedPort{name, p}); !slices.Contains(by[name].Ports, p) {",
			Killer: unit("pkg/install/serving", "TestManyPortsTakeLinearTime"),
		},
		{
			Name: "caches-contain-any-number-of-webhooks", Rule: 8, File: "pkg/controller/trim.go",
			Old:    "atMost(webhook.MaxDescriptions+1, o.Spec.WebhookDefinitions)",
			New:    "atMost(webhook.MaxDescriptions+len(o.Spec.WebhookDefinitions), o.Spec.WebhookDefinitions)",
			Killer: unit("pkg/controller", "TestCachesContainNoLongListsOfWebhooksAndPermissions"),
		},
		{
			Name: "each-label-of-an-account-wakes", Rule: 8, File: "pkg/controller/csv/wake.go",
			Old:    "isMark(key) && (!ok || was != value) {",
			New:    "(isMark(key) || true) && (!ok || was != value) {",
			Killer: unit("pkg/controller/csv", "TestChangesWakeTheAffectedCSVs"),
		},
		{
			Name: "properties-are-decoded-for-each-subscription", Rule: 8, File: "pkg/controller/csv/owner.go",
			Old:    "		n.by[text] = known\n",
			New:    "",
			Killer: unit("pkg/controller/csv", "TestThePropertiesOfACSVAreDecodedOncePerReconcile"),
		},
		{
			Name: "accounts-are-judged-for-each-deployment", Rule: 8, File: "pkg/install/deployment/identity.go",
			Old:    "		allowed[key.Name] = true\n",
			New:    "",
			Killer: unit("pkg/install/deployment", "TestAServiceAccountIsJudgedOnce"),
		},
		{
			Name: "any-number-of-accounts-may-report", Rule: 8, File: "pkg/controller/operatorcondition/access.go",
			Old:    "DeploymentSpecs) > deployment.MaxDeployments {",
			New:    "DeploymentSpecs) > deployment.MaxDeployments*100 {",
			Killer: unit("pkg/controller/operatorcondition", "TestServiceAccountsAreExaminedUpToALimit"),
		},
	}
}
