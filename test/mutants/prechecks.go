package mutants

// prechecks returns the mutants of the guards that look at objects before they are written, and at their statuses afterward.
func prechecks() []Mutant {
	return []Mutant{
		{
			Name: "a-status-from-before-the-write-is-evidence", File: "pkg/controller/clusterextension/probe.go",
			Old:    "case live != nil && isProbed(obj) && s.isOutdated(live, obj):",
			New:    "case live != nil && isProbed(obj) && s.isOutdated(live, obj) && ctx == nil:",
			Killer: unit("pkg/controller/clusterextension", "TestAStatusFromBeforeTheWriteIsNoEvidence"),
		},
		{
			Name: "supporting-objects-may-be-occupied", Rule: 7, File: "pkg/controller/installplan/supporting.go",
			Old:    "occupied, err := s.executor.Occupied(ctx, supporting, supporting)",
			New:    "occupied, err := s.executor.Occupied(ctx, supporting, supporting[:0])",
			Killer: unit("pkg/controller/installplan", "TestCollisionsOfSupportingObjectsAreKnownBeforeTheFirstWrite"),
		},
		{
			Name: "supporting-roles-may-be-bound", Rule: 7, File: "pkg/step/execute/occupied.go",
			Old:    "o.problem = Roles{RBAC: e.RBAC, Owner: s.Owner, Rendered: rendered, Live: e.Facts}.CheckBindings(ctx, live, s.Object)",
			New:    "_ = Roles{RBAC: e.RBAC, Owner: s.Owner, Rendered: rendered, Live: e.Facts}.CheckBindings(ctx, live, s.Object)",
			Killer: unit("pkg/controller/installplan", "TestCollisionsOfSupportingObjectsAreKnownBeforeTheFirstWrite"),
		},
		{
			Name: "foreign-definitions-may-be-converted", Rule: 7, File: "pkg/controller/installplan/supporting.go",
			Old:    "if err := apply.Check(state.Live, state.Step.Object, st.Owner); err != nil {",
			New:    "if err := apply.Check(state.Live, state.Step.Object, st.Owner); err != nil && s == nil {",
			Killer: unit("pkg/controller/installplan", "TestCollisionsOfSupportingObjectsAreKnownBeforeTheFirstWrite"),
		},
		{
			Name: "anyone-may-claim-to-use-any-account", Rule: 5, File: "manifests/policy/csv-author.yaml",
			Old:    "? !variables.ofAny && variables.mayUseRecorded && variables.mayUseNext || variables.mayUseAny : variables.name == ''",
			New:    "? true : variables.name == ''",
			Killer: unit("test/author", "TestAnyAccountIncludesTheDefaultAccount"),
		},
		{
			Name: "anyone-may-remove-the-label-of-any-account", Rule: 5, File: "manifests/policy/csv-author.yaml",
			Old:    "|| request.operation == 'UPDATE' && 'remit.dev/any-account' in oldObject.metadata.?labels.orValue({})",
			New:    "",
			Killer: unit("test/author", "TestTheLabelOfAnyAccountNamesWhatItRequires"),
		},
		{
			Name: "any-account-excludes-the-default-account", Rule: 5, File: "manifests/policy/csv-author.yaml",
			Old:    "&& (variables.defaultAccount == '' || authorizer.group('')",
			New:    "&& (true || authorizer.group('')",
			Killer: unit("test/author", "TestAnyAccountIncludesTheDefaultAccount"),
		},
		{
			Name: "removed-labels-of-deployments-stay-away", File: "pkg/install/deployment/state.go",
			Old:    "|| !hasLabels(live, d) {",
			New:    "|| !hasLabels(live, live) {",
			Killer: unit("pkg/controller/csv", "TestInstalls"),
		},
		{
			Name: "an-edit-keeps-other-fields-away", File: "pkg/install/deployment/installer.go",
			Old:    "	if written {\n		obj, edits",
			New:    "	if written && i.Facts == nil {\n		obj, edits",
			Killer: unit("pkg/install/deployment", "TestRestoresWhatWasRemovedAndKeepsEdits"),
		},
		{
			Name: "uncached-bindings-of-plans-are-not-read", Rule: 7, File: "pkg/step/execute/unseen.go",
			Old:    "namespace == \"\" || !unread && !isNew {",
			New:    "namespace == \"\" || unread || !isNew {",
			Killer: unit("pkg/step/execute", "TestFindsUncachedBindingsToPlannedRoles"),
		},
		{
			Name: "uncached-bindings-get-the-rules-of-new-roles", Rule: 7, File: "pkg/step/execute/unseen.go",
			Old:    "s.Live == nil && rendered(*s)",
			New:    "s.Live == nil && !rendered(*s)",
			Killer: unit("pkg/step/execute", "TestFindsUncachedBindingsToPlannedRoles"),
		},
		{
			Name: "hand-made-csvs-write-before-all-collisions-are-known", Rule: 7, File: "pkg/controller/csv/collisions.go",
			Old:    "if !s.owner.Direct || ",
			New:    "if s.owner.Direct || ",
			Killer: unit("pkg/controller/csv", "TestCollisionsOfAHandMadeCSVAreKnownBeforeTheFirstWrite"),
		},
		{
			Name: "hand-made-csvs-write-before-collisions-of-hooks-are-known", Rule: 7, File: "pkg/controller/csv/collisions.go",
			Old:    "{s.hooks.Parts, s.hooks.Hooks}",
			New:    "{s.hooks.Hooks}",
			Killer: unit("pkg/controller/csv", "TestCollisionsOfAHandMadeCSVAreKnownBeforeTheFirstWrite"),
		},
		{
			Name: "hand-made-csvs-write-before-collisions-of-definitions-are-known", Rule: 7, File: "pkg/controller/csv/collisions.go",
			Old:    "append(all, s.live.Unconvertible(s.hooks))...",
			New:    "all...",
			Killer: unit("pkg/controller/csv", "TestCollisionsOfAHandMadeCSVAreKnownBeforeTheFirstWrite"),
		},
		{
			Name: "removed-fields-stay-away", File: "pkg/controller/csv/drift.go",
			Old:    "live.Generation <= 1 && ",
			New:    "live.Generation > 0 && ",
			Killer: unit("pkg/controller/csv", "TestRestoresRemovedFieldsOfDeployments"),
		},
		{
			Name: "changed-labels-are-not-noticed", File: "pkg/controller/csv/drift.go",
			Old:    " && c.labels == labels",
			New:    "",
			Killer: unit("pkg/controller/csv", "TestNoticesOtherValuesOfLabelsOfDeployments"),
		},
		{
			Name: "changed-labels-are-not-compared", File: "pkg/install/deployment/installer.go",
			Old:    "OtherLabels(live, d) == \"\"",
			New:    "hasLabels(live, obj)",
			Killer: unit("pkg/install/deployment", "TestRestoresWhatWasRemovedAndKeepsEdits"),
		},
		{
			Name: "refusals-of-pods-are-not-reported", File: "pkg/install/deployment/status.go",
			Old:    "c != nil && c.Status == corev1.ConditionTrue {\n		return \"; its Pods",
			New:    "c != nil && c.Status == corev1.ConditionFalse {\n		return \"; its Pods",
			Killer: unit("pkg/install/deployment", "TestSaysWhyAdmissionRefusesPods"),
		},
		{
			Name: "removed-fields-are-restored-without-a-pause", File: "pkg/controller/csv/drift.go",
			Old:    "left := was.at.Add(was.pause).Sub(s.facts.Now); left > 0",
			New:    "left := was.at.Add(was.pause).Sub(s.facts.Now); left > lastPause",
			Killer: unit("pkg/controller/csv", "TestPausesWhileFieldsAreRemovedRepeatedly"),
		},
	}
}
