package mutants

// leftovers returns the mutants of the guards against tenants who keep an excess by removing what it is compared with, and of
// those that limit which objects without an owner are removed.
func leftovers() []Mutant {
	const group, extension = "pkg/controller/operatorgroup", "pkg/controller/clusterextension"
	return []Mutant{
		{
			Name: "an-excess-without-an-account-stays", Rule: 2, File: "pkg/install/excess/bounds.go",
			Old:    "if len(subjects) == 0 {",
			New:    "if false {",
			Killer: unit("pkg/controller/csv", "TestAnExcessIsRemovedWithoutAnAccount"),
		},
		{
			Name: "one-account-too-many-covers", Rule: 2, File: "pkg/lib/scoped/bound.go",
			Old:    " && len(groups) <= maxBounding {",
			New:    " {",
			Killer: unit("pkg/lib/scoped", "TestTheAccountsOfANamespaceBoundItsOperators"),
		},
		{
			Name: "csvs-that-appear-to-own-keep-an-excess", Rule: 3, File: "pkg/install/excess/ages.go",
			Old:    "reported, ends = ends, ends.Add(grace)",
			New:    "continue",
			Killer: unit(group, "TestWhatDoesNotKeepPermissions"),
		},
		{
			Name: "deleting-csvs-keep-an-excess", Rule: 3, File: "pkg/controller/operatorgroup/excess.go",
			Old:    "csv.DeletionTimestamp == nil && ",
			New:    "",
			Killer: unit(group, "TestWhatDoesNotKeepPermissions"),
		},
		{
			Name: "leftovers-are-removed-by-their-labels", Rule: 3, File: "pkg/controller/operatorgroup/excess.go",
			Old:    "if !ownerutil.IsProven(obj, s.Proofs) {",
			New:    "if false {",
			Killer: unit(group, "TestWhichPermissionsWithoutACSVStay"),
		},
		{
			Name: "leftovers-are-removed-by-the-cache", Rule: 1, File: "pkg/controller/operatorgroup/excess.go",
			Old:    "confirmed, found := append(hooks, is.Confirmed...)",
			New:    "confirmed, found := append(hooks, is.Found...)",
			Killer: unit(group, "TestWhichPermissionsWithoutACSVStay"),
		},
		{
			Name: "leftovers-are-compared-with-cached-groups", Rule: 3, File: "pkg/controller/operatorgroup/hooks.go",
			Old:    "err != nil || !current.Same(s.bound) {",
			New:    "err != nil || current.LeftToOLM {",
			Killer: unit(group, "TestWhichPermissionsWithoutACSVStay"),
		},
		{
			Name: "leftovers-of-terminating-namespaces-are-retried", File: "pkg/controller/operatorgroup/excess.go",
			Old:    `s.namespace.Name == "" || s.namespace.DeletionTimestamp != nil {`,
			New:    `s.namespace.Name == "" {`,
			Killer: unit(group, "TestATerminatingNamespaceIsLeftAlone"),
		},
		{
			Name: "leftovers-are-removed-at-once", Rule: 6, File: "pkg/install/excess/ages.go",
			Old:    "case now.Before(ends):",
			New:    "case false:",
			Killer: unit(group, "TestPermissionsWithoutACSVAreReportedAndRemoved"),
		},
		{
			Name: "extensions-that-are-deleted-keep-an-excess", Rule: 3, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "		if is.DeletionTimestamp == nil || is.Name != name {\n",
			New:    "		{\n",
			Killer: unit(extension, "TestWhatAnExtensionLeavesBehind"),
		},
		{
			Name: "new-extensions-keep-the-excess-of-earlier-ones", Rule: 3, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "		return owner.Owns(obj)\n",
			New:    "		return owner.UID != \"\"\n",
			Killer: unit(extension, "TestWhatAnExtensionLeavesBehind"),
		},
		{
			Name: "leftovers-are-removed-as-another-account", Rule: 5, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "	return x.clientOf(ctx, x.identity)\n",
			New:    "	return s.clientOf(ctx, x.identity)\n",
			Killer: unit(extension, "TestLeftoversAreNotRemovedAsTheAccountOfARecreatedNamespace"),
		},
		{
			Name: "selectors-of-groups-have-any-size", Rule: 8, File: "pkg/lib/scoped/selector.go",
			Old:    "	return n > MaxSelector",
			New:    "	return n < 0",
			Killer: unit("pkg/lib/scoped", "TestLargeSelectorsAreNotEvaluated"),
		},
		{
			Name: "live-objects-take-any-memory", Rule: 8, File: "pkg/step/execute/memory.go",
			Old:    "	m.taken += cost\n",
			New:    "",
			Killer: unit("pkg/step/execute", "TestTheMemoryOfLiveObjectsIsLimited"),
		},
		{
			Name: "plans-with-large-existing-objects-do-not-wait", Rule: 8, File: "pkg/controller/installplan/apply.go",
			Old:    "Place: s.takePlace",
			New:    "Place: func() error { return nil }",
			Killer: unit("pkg/controller/installplan", "TestPlansWithLargeExistingObjectsWaitForLargeOnes"),
		},
		{
			Name: "extensions-with-large-existing-objects-do-not-wait", Rule: 8, File: "pkg/controller/clusterextension/open.go",
			Old:    "Place: s.takePlace",
			New:    "Place: func() error { return nil }",
			Killer: unit(extension, "TestRunsWithLargeExistingObjectsTakePlaces"),
		},
		{
			Name: "objects-that-collide-take-any-memory", Rule: 8, File: "pkg/step/execute/occupied.go",
			Old:    "room.Acquire(ctx, cost)",
			New:    "room.Acquire(ctx, 0*cost)",
			Killer: unit("pkg/step/execute", "TestObjectsThatCollideWaitForMemory"),
		},
		{
			Name: "recreated-namespaces-finalize-extensions", Rule: 5, File: "pkg/controller/clusterextension/finalize.go",
			Old:    "findIdentity, stopRecreated, stopUnusable",
			New:    "findIdentity, stopUnusable",
			Killer: unit(extension, "TestARecreatedNamespaceDeletesNothingOfAnExtension"),
		},
		{
			Name: "extensions-with-the-same-label-keep-an-excess", Rule: 3, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "		case is.Name == name:\n",
			New:    "		case is.Name == name, is.DeletionTimestamp == nil && first.ext.UID == \"\":\n",
			Killer: unit(extension, "TestTheLabelOfAnotherExtensionKeepsNothing"),
		},
		{
			Name: "extensions-named-like-a-label-own-its-objects", Rule: 3, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "		if is.DeletionTimestamp == nil || is.Name != name {\n",
			New:    "		if is.DeletionTimestamp == nil && is.Name == name {\n",
			Killer: unit(extension, "TestWhatAnExtensionLeavesBehind"),
		},
		{
			Name: "recreated-namespaces-inherit-extensions", Rule: 5, File: "pkg/controller/clusterextension/namespace.go",
			Old:    "case was != nil || namespace.CreationTimestamp.After(s.ext.CreationTimestamp.Time):",
			New:    "case was != nil && was.UID == \"\":",
			Killer: unit(extension, "TestARecreatedNamespaceInheritsNoExtension"),
		},
		{
			Name: "namespaces-newer-than-an-extension-inherit-it", Rule: 5, File: "pkg/controller/clusterextension/namespace.go",
			Old:    "case was != nil || namespace.CreationTimestamp.After(s.ext.CreationTimestamp.Time):",
			New:    "case was != nil:",
			Killer: unit(extension, "TestANewNamespaceInheritsNoExtension"),
		},
		{
			Name: "any-client-records-namespaces", Rule: 5, File: "manifests/extensions/policy/author.yaml",
			Old:    "\"!variables.isStatus || request",
			New:    "\"!variables.isStatus || true || request",
			Killer: unit("test/author", "TestOnlyRemitRecordsTheNamespaceOfAnExtension"),
		},
		{
			Name: "kept-objects-fill-the-batch", Rule: 3, File: "pkg/install/excess/find.go",
			Old:    "		case obj.GetDeletionTimestamp() != nil:\n			rank[obj] = 2\n",
			New:    "",
			Killer: unit("pkg/install/excess", "TestABatchBeginsWithWhatIsNotBeingDeleted"),
		},
		{
			Name: "deleted-groups-install", Rule: 3, File: "pkg/controller/installplan/run.go",
			Old:    "cmp.Or(err, scoped.CheckNotDeleted(og))",
			New:    "cmp.Or(err, nil)",
			Killer: unit("pkg/controller/installplan", "TestPlansWaitForTheirAccount"),
		},
		{
			Name: "groups-deleted-meanwhile-install", Rule: 3, File: "pkg/controller/installplan/apply.go",
			Old:    "	if err := scoped.CheckNotDeleted(group); err != nil {\n",
			New:    "	if err := scoped.CheckNotDeleted(nil); err != nil {\n",
			Killer: unit("pkg/controller/installplan", "TestPlansWaitForTheirAccount"),
		},
		{
			Name: "deleted-groups-resolve", Rule: 3, File: "pkg/controller/subscription/world.go",
			Old:    "cmp.Or(err, scoped.CheckNotDeleted(og))",
			New:    "cmp.Or(err, nil)",
			Killer: unit("pkg/controller/subscription", "TestAnOperatorGroupThatIsBeingDeletedInstallsNothing"),
		},
		{
			Name: "groups-that-are-deleted-keep-an-excess", Rule: 3, File: "pkg/controller/operatorgroup/reconciler.go",
			Old:    "found, after, err := r.checkExcess(ctx, group.Namespace)",
			New:    "found, after, err := Excess{}, time.Duration(0), error(nil)",
			Killer: unit("pkg/controller/operatorgroup", "TestWhatDoesNotKeepPermissions"),
		},
		{
			Name: "owners-that-users-name-are-looked-up", Rule: 8, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "	if mark == \"\" || r.Proofs.Check(obj, mark) != nil {\n		return nil\n	}\n	var out []reconcile.Request\n",
			New:    "	var out []reconcile.Request\n	if len(r.ownersOf(ctx, obj)) > 0 || r.Proofs.Check(obj, mark) != nil {\n		return out\n	}\n",
			Killer: unit(extension, "TestOwnersOfAnObjectAreLookedUpOnceIfItIsProven"),
		},
		{
			Name: "owners-are-looked-up-once-per-owner", Rule: 8, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "		if isMarkOf(name, mark) {\n",
			New:    "		if isMarkOf(name, mark) && len(r.ownersOf(ctx, obj)) == 0 {\n",
			Killer: unit(extension, "TestOwnersOfAnObjectAreLookedUpOnceIfItIsProven"),
		},
		{
			Name: "a-pause-hides-the-end-of-another-grace-period", Rule: 0, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "		return kit.Sooner(left, plan.After), nil",
			New:    "		return left, nil",
			Killer: unit("pkg/controller/clusterextension", "TestThePauseOfALeftoverKeepsOtherTimes"),
		},
		{
			Name: "leftovers-of-extensions-are-removed-by-their-labels", Rule: 3, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "if !isMarkOf(s.ext.Name, mark) || s.Proofs.Check(obj, mark) != nil {",
			New:    "if !isMarkOf(s.ext.Name, mark) {",
			Killer: unit(extension, "TestWhatAnExtensionLeavesBehind"),
		},
		{
			Name: "extensions-confirm-nothing", Rule: 1, File: "pkg/controller/clusterextension/excess.go",
			Old:    "if err == nil && len(is.Confirmed) == 0 {",
			New:    "if is.Confirmed = is.Found; err == nil && len(is.Confirmed) == 0 {",
			Killer: unit(extension, "TestTheAPIServerConfirmsAnExcessOfAnExtension"),
		},
		{
			Name: "objects-that-an-extension-lost-are-removed", Rule: 7, File: "pkg/controller/clusterextension/excess.go",
			Old:    "Examine(ctx, s.Live, s.owner.Owns, ",
			New:    "Examine(ctx, s.Live, func(client.Object) bool { return true }, ",
			Killer: unit(extension, "TestTheAPIServerConfirmsAnExcessOfAnExtension"),
		},
		{
			Name: "a-cached-identity-decides-what-is-removed", Rule: 3, File: "pkg/controller/clusterextension/excess.go",
			Old:    "live.Generation == s.ext.Generation && ",
			New:    "",
			Killer: unit(extension, "TestTheAPIServerConfirmsAnExcessOfAnExtension"),
		},
		{
			Name: "a-cached-annotation-decides-what-is-removed", Rule: 3, File: "pkg/controller/clusterextension/excess.go",
			Old:    " && !scoped.KeepsExcess(live), err",
			New:    ", err",
			Killer: unit(extension, "TestTheAPIServerConfirmsAnExcessOfAnExtension"),
		},
		{
			Name: "a-later-extension-loses-permissions", Rule: 3, File: "pkg/controller/clusterextension/excess.go",
			Old:    "live.UID == s.ext.UID && live.DeletionTimestamp == nil && live.Gen",
			New:    "live.DeletionTimestamp == nil && live.Gen",
			Killer: unit(extension, "TestTheAPIServerConfirmsAnExcessOfAnExtension"),
		},
		{
			Name: "bindings-with-shorter-marks-stay", Rule: 2, File: "pkg/controller/clusterextension/excess.go",
			Old:    "s.Client.List(ctx, list, s.owner.Marked(),",
			New:    "s.Client.List(ctx, list, client.MatchingLabels{names.LabelLineage: s.owner.Mark()},",
			Killer: unit(extension, "TestFindsBindingsWithShorterMarks"),
		},
		{
			Name: "groups-install-as-remits-programs", Rule: 5, File: "pkg/lib/scoped/lookup.go",
			Old:    "reserved != nil {",
			New:    "reserved != nil && l.Reader == nil {",
			Killer: unit("pkg/lib/scoped", "TestRemitsOwnServiceAccountsAreNoAccounts"),
		},
		{
			Name: "extensions-install-as-remits-programs", Rule: 5, File: "pkg/controller/clusterextension/identity.go",
			Old:    "if reserved := r.reserved(identity); reserved != nil {",
			New:    "if reserved := r.reserved(identity); reserved != nil && r.Clients != nil {",
			Killer: unit(extension, "TestRemitsOwnServiceAccountsAreNoIdentities"),
		},
	}
}
