package mutants

// hints returns the mutants of rule 3: values that clients choose never confer authority.
func hints() []Mutant {
	return []Mutant{
		{
			Name: "owner-labels-of-authors-kept", Rule: 3, File: "pkg/bundle/strip.go",
			Old:    "	return strings.HasPrefix(key, names.LabelComponentPrefix) || strings.HasPrefix(key, names.PrefixOwn)",
			New:    "	return strings.HasPrefix(key, names.LabelComponentPrefix)",
			Killer: unit("pkg/bundle", "TestKeepsOnlyTheAuthorsMetadata"),
		},
		{
			Name: "owner-labels-of-extensions-kept", Rule: 3, File: "pkg/bundle/strip.go",
			Old:    "names.LabelPermissionsHash, names.LabelExtensionKind, names.LabelExtensionName:",
			New:    "names.LabelPermissionsHash, names.LabelExtensionKind:",
			Killer: unit("pkg/bundle", "TestKeepsOnlyTheAuthorsMetadata"),
		},
		{
			Name: "own-annotations-of-authors-kept", Rule: 3, File: "pkg/bundle/strip.go",
			Old:    "	return strings.HasPrefix(key, names.AnnotationInstalledAlongsidePrefix) || strings.HasPrefix(key, names.PrefixOwn)",
			New:    "	return false",
			Killer: unit("pkg/bundle", "TestKeepsOnlyTheAuthorsMetadata"),
		},
		{
			Name: "metadata-of-authors-kept", Rule: 3, File: "pkg/bundle/parse.go",
			Old: `	obj.Object["metadata"] = metadata
`,
			New:    "",
			Killer: unit("pkg/bundle", "TestKeepsOnlyTheAuthorsMetadata"),
		},
		{
			Name: "status-of-authors-kept", Rule: 3, File: "pkg/bundle/parse.go",
			Old: `	delete(obj.Object, "status")
`,
			New:    "",
			Killer: unit("pkg/bundle", "TestStripsTheCSVAndSetsItsVersion"),
		},
		{
			Name: "instructions-to-other-programs-kept", Rule: 3, File: "pkg/step/build/bundle.go",
			Old:    "		out.Dropped[own] = bundle.Confine(own)",
			New:    "		out.Dropped[own] = nil",
			Killer: unit("pkg/step/build", "TestAStepListsDroppedLabelsAndAnnotations"),
		},
		{
			Name: "an-edited-plan-is-executed", Rule: 3, File: "pkg/resolver/plan.go",
			Old:    "	if name != want {",
			New:    `	if name == "" && want != name {`,
			Killer: unit("pkg/resolver", "TestDecodeAcceptsOnlyWhatEncodeWrote"),
		},
		{
			Name: "forged-content-is-shown", Rule: 3, File: "pkg/resolver/kept.go",
			Old:    "		if content.Digest() != p.Pins[i].Digest {",
			New:    `		if content.Digest() == "" && p.Pins[i].Digest != "" {`,
			Killer: unit("pkg/resolver", "TestRefusesForgedContent"),
		},
		{
			Name: "a-superseded-plan-is-executed", Rule: 3, File: "pkg/controller/installplan/run.go",
			Old:    "if err == nil && content.SharesSubscription(s.content) {",
			New:    "if err != nil && content.SharesSubscription(s.content) {",
			Killer: row("73"),
		},
		{
			Name: "copies-are-live", Rule: 3, File: "pkg/controller/csv/owner.go",
			Old:    "	return copied\n",
			New:    "	return false && copied\n",
			Killer: unit("pkg/controller/csv", "TestTheGroupAndTheContentAreCheckedFirst"),
		},
		{
			Name: "earlier-bindings-count-as-granted", Rule: 3, File: "pkg/install/deployment/identity.go",
			Old:    "!b.GetCreationTimestamp().After(at) && !by.Owner.Owns(b)",
			New:    "b == nil",
			Killer: unit("pkg/install/deployment", "TestExistingBindingsOfANewServiceAccountCount"),
		},
		{
			Name: "strangers-labels-wake", Rule: 3, File: "pkg/controller/csv/wake.go",
			Old:    `if namespace == "" || owner == "" || !r.proven(obj) {`,
			New:    `if namespace == "" || owner == "" {`,
			Killer: unit("pkg/controller/csv", "TestChangesWakeTheConcernedCSVs"),
		},
		{
			Name: "labels-of-another-lineage-wake", Rule: 3, File: "pkg/controller/csv/wake.go",
			Old:    "		return mayBe(csv, mark) && (",
			New:    `		return (mayBe(csv, mark) || mark != "") && (`,
			Killer: unit("pkg/controller/csv", "TestChangesWakeTheConcernedCSVs"),
		},
		{
			Name: "status-makes-a-copy", Rule: 3, File: "pkg/controller/csv/owner.go",
			Old:    "	return copied\n",
			New:    "	return copied || csv.Status.Reason == operatorsv1alpha1.CSVReasonCopied\n",
			Killer: unit("pkg/controller/csv", "TestTheGroupAndTheContentAreCheckedFirst"),
		},
		{
			Name: "webhooks-beyond-the-limits-are-unchecked", Rule: 1, File: "pkg/controller/csv/missing.go",
			Old:    "	if report.Clear() {",
			New:    "	if report.Empty() {",
			Killer: unit("pkg/controller/csv", "TestNoWebhookIsWrittenIfTheCheckIsIncomplete"),
		},
		{
			Name: "undecided-webhooks-are-written", Rule: 1, File: "pkg/controller/csv/missing.go",
			Old:    "	if purpose == forHooks && len(report.Unknown) > 0 {",
			New:    "	if false {",
			Killer: unit("pkg/controller/csv", "TestNoWebhookIsWrittenIfTheCheckIsIncomplete"),
		},
		{
			Name: "proof-of-another-object-is-accepted", Rule: 3, File: "pkg/lib/proof/keys.go",
			Old:    "	case !has.isFor(of, key):",
			New:    "	case key == nil:",
			Killer: unit("pkg/lib/proof", "TestVerifiesEveryBoundField"),
		},
		{
			Name: "written-before-it-was-checked", Rule: 3, File: "pkg/install/warrant/warrant.go",
			Old:    "	case !f.Evaluated:",
			New:    "	case false:",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
		{
			Name: "pods-carry-instructions-to-other-programs", Rule: 3, File: "pkg/install/deployment/desired.go",
			Old:    `	kept, _ := bundle.Keep("Pod", all)`,
			New:    "	kept, _ := all, bundle.Keep",
			Killer: unit("pkg/install/deployment", "TestPodsHaveNoKeysThatClusterProgramsActOn"),
		},
		{
			Name: "labels-are-dropped-silently", Rule: 3, File: "pkg/preflight/leftout.go",
			Old:    "		lines = append(lines, deployment.LeftOut(csv, config)...)",
			New:    "		_ = deployment.LeftOut(csv, config)",
			Killer: unit("pkg/preflight", "TestNotesOmittedLabelsAndAnnotations"),
		},
		{
			Name: "grant-names-do-not-commit-to-rules", Rule: 3, File: "pkg/preflight/grant.go",
			Old:    "ownerutil.Hash(append(lines, s",
			New:    "ownerutil.Hash(append(lines[:0], s",
			Killer: unit("pkg/preflight", "TestGrantsOfDifferentReportsHaveDifferentNames"),
		},
		{
			Name: "grants-policy-audits", Rule: 3, File: "manifests/policy/grants.yaml",
			Old:    "policyName: remit-grants\n  validationActions: [Deny]",
			New:    "policyName: remit-grants\n  validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "any-binding-may-wait-for-a-grant", Rule: 3, File: "manifests/policy/grants.yaml",
			Old:    "s.?namespace.orValue('') == variables.parts[0] && s.name == variables.parts[1]",
			New:    "s.name != ''",
			Killer: row("207"),
		},
		{
			Name: "an-enrollment-binds-any-subject", Rule: 5, File: "manifests/policy/grants.yaml",
			Old:    "!object.roleRef.name.startsWith('remit-enrollment-') ||",
			New:    "true ||",
			Killer: row("207"),
		},
		{
			Name: "an-authors-role-binds-any-subject", Rule: 5, File: "manifests/policy/grants.yaml",
			Old:    "!object.roleRef.name.startsWith('remit-author-') ||",
			New:    "true ||",
			Killer: row("207"),
		},
		{
			Name: "authors-names-collide", Rule: 5, File: "manifests/policy/grants.yaml",
			Old:    "s.name.replace('~', '~0')",
			New:    "s.name.replace('~0', '~')",
			Killer: row("207"),
		},
		{
			Name: "bindings-of-grants-may-be-changed", Rule: 3, File: "manifests/policy/grants.yaml",
			Old:    "operations: [CREATE, UPDATE]",
			New:    "operations: [CREATE]",
			Killer: row("207"),
		},
		{
			Name: "rbac-names-are-any-text", Rule: 8, File: "pkg/bundle/parse.go",
			Old:    "		problems = append(problems, isPlain(name)...)",
			New:    "		problems = append(problems, isPlain(\"x\")...)",
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "permissions-in-other-namespaces-are-shown", Rule: 8, File: "pkg/preflight/identities.go",
			Old:    "		out.Hidden = true",
			New:    "		out.Hidden = false",
			Killer: row("142g"),
		},
		{
			Name: "lines-of-a-report-break", Rule: 8, File: "pkg/preflight/render.go",
			Old:    "		lines = append(lines, \"- \"+status.OneLine(text))",
			New:    "		lines = append(lines, \"- \"+text)",
			Killer: unit("pkg/preflight", "TestQuotedMessagesCannotImitateAGrant"),
		},
		{
			Name: "commands-are-not-quoted", Rule: 8, File: "pkg/controller/csv/retire.go",
			Old:    "		return \"'\" + strings.ReplaceAll",
			New:    "		return text + strings.ReplaceAll",
			Killer: unit("pkg/controller/csv", "TestCommandsAreQuotedForAShell"),
		},
		{
			Name: "webhooks-times-targets-are-not-counted", Rule: 8, File: "pkg/step/build/rbac.go",
			Old:    "(rbac.Size(demand.Namespaced)+webhookWeight)*max(len(targets), 1)",
			New:    "0*(rbac.Size(demand.Namespaced)+webhookWeight)*max(len(targets), 1)",
			Killer: unit("pkg/step/build", "TestRulesTimesTargetsAreLimited"),
		},
		{
			Name: "anyone-creates-installplans", Rule: 3, File: "manifests/policy/csv-author.yaml",
			Old:    "&& request.userInfo.username == 'system:serviceaccount:' + variables.installation + ':remit-catalog'",
			New:    "",
			Killer: row("72d"),
		},
	}
}
