package mutants

// adoption returns the mutants of rule 7: no adoption, no forced apply.
func adoption() []Mutant {
	return []Mutant{
		{
			Name: "later-proofs-need-the-same-version", File: "pkg/lib/apply/apply.go",
			Old:    "	again.SetUID(made.GetUID())\n	return send",
			New:    "	again.SetUID(made.GetUID())\n	again.SetResourceVersion(made.GetResourceVersion())\n	return send",
			Killer: unit("pkg/lib/apply", "TestSignsAgainWhatOthersHaveChangedMeanwhile"),
		},
		{
			Name: "later-proofs-end-with-the-program", File: "pkg/lib/apply/apply.go",
			Old:    "context.WithTimeout(context.WithoutCancel(ctx), signTimeout)",
			New:    "context.WithTimeout(ctx, signTimeout)",
			Killer: unit("pkg/lib/apply", "TestSignsAgainWhatOthersHaveChangedMeanwhile"),
		},
		{
			Name: "webhooks-stay-off-while-a-deployment-is-refused", File: "pkg/install/hooks/ensure.go",
			Old:    "	if err := try(ctx); err != nil {",
			New:    "	if err := try(ctx); err != nil && len(changes) == 0 {",
			Killer: unit("pkg/controller/csv", "TestARefusedDeploymentKeepsItsWebhooks"),
		},
		{
			Name: "a-refused-label-keeps-those-of-other-namespaces", File: "pkg/controller/operatorgroup/labels.go",
			Old:    "		case ctx.Err() != nil:\n",
			New:    "		case ctx.Err() != nil, err != nil:\n",
			Killer: unit("pkg/controller/operatorgroup", "TestLabelsThatTheAccountCannotRemoveStay"),
		},
		{
			Name: "objects-of-others-are-written", Rule: 7, File: "pkg/lib/apply/apply.go",
			Old:    "if why := owner.Check(live); why != nil {",
			New:    "if why := owner.Check(live); false {",
			Killer: unit("pkg/lib/apply", "TestEnsureRefusesObjectsOfOthers"),
		},
		{
			Name: "applies-are-forced", Rule: 7, File: "pkg/lib/apply/apply.go",
			Old:    "client.FieldOwner(Manager(obj.GetLabels())))",
			New:    "client.FieldOwner(Manager(obj.GetLabels())), client.ForceOwnership)",
			Killer: unit("pkg/lib/apply", "TestAFieldOfAnotherManagerIsACollision"),
		},
		{
			Name: "writes-are-not-bound-to-what-was-read", Rule: 7, File: "pkg/lib/apply/apply.go",
			Old: `	want.SetResourceVersion(live.GetResourceVersion())
`,
			New:    "",
			Killer: unit("pkg/lib/apply", "TestAConcurrentChangeIsAConflict"),
		},
		{
			Name: "objects-created-at-the-same-time-are-adopted", Rule: 7, File: "pkg/lib/apply/apply.go",
			Old:    "	made.SetResourceVersion(absentVersion)\n",
			New:    "",
			Killer: unit("pkg/lib/apply", "TestAnObjectThatWasCreatedConcurrentlyIsNotChanged"),
		},
		{
			Name: "one-field-manager-for-all-lineages", Rule: 7, File: "pkg/lib/apply/apply.go",
			Old: `		return names.FieldManager + "-" + names.ShortMark(mark)
`,
			New: `		return names.FieldManager
`,
			Killer: unit("pkg/lib/apply", "TestAConcurrentCreationByAnotherLineageIsACollision"),
		},
		{
			Name: "any-proof-is-accepted", Rule: 7, File: "pkg/lib/ownerutil/ownerutil.go",
			Old:    "	return l.IsMark(obj.GetLabels()[names.LabelLineage])",
			New:    `	return obj.GetLabels()[names.LabelLineage] != ""`,
			Killer: unit("pkg/lib/ownerutil", "TestMarksDistinguishLineages"),
		},
		{
			Name: "extensions-share-the-lineage-of-subscriptions", Rule: 7, File: "pkg/lib/ownerutil/ownerutil.go",
			Old:    `Commitment("extension", l.Extension, "")`,
			New:    `Commitment("extension", l.Extension)`,
			Killer: unit("pkg/lib/ownerutil", "TestMarksOfClusterExtensionsAreUnique"),
		},
		{
			Name: "cert-manager-overwrites-secrets-of-others", Rule: 7, File: "pkg/controller/clusterextension/try.go",
			Old:    "err != nil || live == nil || serving.IsIssued(live) ||",
			New:    "true || live == nil || serving.IsIssued(live) ||",
			Killer: unit("pkg/controller/clusterextension", "TestCertManagerOverwritesOnlyItsOwnSecrets"),
		},
		{
			Name: "a-recreated-extension-adopts", Rule: 7, File: "pkg/lib/ownerutil/ownerutil.go",
			Old:    `	case o.Extension == "" && obj.GetNamespace() == o.Namespace:`,
			New:    "	case obj.GetNamespace() == o.Namespace:",
			Killer: unit("pkg/lib/ownerutil", "TestOwnerOfAClusterExtension"),
		},
		{
			Name: "an-extension-adopts-what-an-earlier-one-owns", Rule: 7, File: "pkg/lib/ownerutil/ownerutil.go",
			Old:    " && ref.UID != mine.UID",
			New:    " && false",
			Killer: unit("pkg/lib/ownerutil", "TestOwnerOfAClusterExtension"),
		},
		{
			Name: "names-of-two-owners-collide", Rule: 7, File: "pkg/lib/ownerutil/ownerutil.go",
			Old: `		h.Write([]byte{0})
`,
			New:    "",
			Killer: unit("pkg/lib/ownerutil", "TestHashDistinguishesParts"),
		},
		{
			Name: "protected-groups-are-open", Rule: 7, File: "pkg/step/execute/protected.go",
			Old:    "s.IsCRD() && group.Protected(groupOf(s)) && !Approved(s)",
			New:    "s.IsCRD() && group.Protected(groupOf(s)) && !Approved(s) && false",
			Killer: unit("pkg/step/execute", "TestOnlyTheDefaultAccountWritesProtectedGroups"),
		},
		{
			Name: "definitions-claim-others-groups", Rule: 7, File: "pkg/step/execute/protected.go",
			Old:    "group.Same(api.Spec.Group, name) && Claims(api)",
			New:    "api.Spec.Group == name+name && Claims(api)",
			Killer: unit("pkg/step/execute", "TestACRDIsNotWrittenIntoAGroupOfAnotherAPIService"),
		},
		{
			Name: "a-namespace-inherits-by-its-name", Rule: 7, File: "pkg/lib/proof/keys.go",
			Old:    "	case created.Before(since.Add(-skew)):",
			New:    "	case created.Before(time.Time{}.Add(0 * skew)):",
			Killer: unit("pkg/lib/proof", "TestInheritsNothingFromAnEarlierNamespace"),
		},
		{
			Name: "plans-inherit-by-the-namespaces-name", Rule: 7, File: "pkg/controller/installplan/run.go",
			Old:    "steps[i].Owner.Proofs, steps[i].Owner.Since = r.Proofs, namespace.CreationTimestamp.Time",
			New:    "steps[i].Owner.Proofs = r.Proofs",
			Killer: unit("pkg/controller/installplan", "TestObstaclesAreReportedBeforeTheFirstWrite"),
		},
		{
			Name: "bindings-are-inherited-by-the-namespaces-name", Rule: 7, File: "pkg/controller/csv/siblings.go",
			Old: `	s.owner.Since = s.namespace.CreationTimestamp.Time
`,
			New:    "",
			Killer: unit("pkg/controller/csv", "TestRemovals"),
		},
		{
			Name: "bindings-wait-for-operators-roles", Rule: 7, File: "pkg/step/execute/awaited.go",
			Old:    "	if own && r.asRendered(b) {",
			New:    `	if own || b.GetName() != "" {`,
			Killer: unit("pkg/step/execute", "TestBindingsToAnUnfilledRoleAreCollisions"),
		},
		{
			Name: "a-proven-binding-passes-with-any-subjects", Rule: 7, File: "pkg/step/execute/awaited.go",
			Old:    "want.RoleRef == rbac.RoleRefOf(b) && equality.Semantic.DeepEqual(want.Subjects, rbac.SubjectsOf(b))",
			New:    "want.RoleRef == rbac.RoleRefOf(b) && rbac.SubjectsOf(b) != nil",
			Killer: unit("pkg/step/execute", "TestBindingsToAnUnfilledRoleAreCollisions"),
		},
		{
			Name: "an-emptied-role-is-filled-unchecked", Rule: 7, File: "pkg/step/execute/awaited.go",
			Old:    "!r.RBAC.Readable() || live != nil && sameRules(live, role)",
			New:    "!r.RBAC.Readable() || live != nil",
			Killer: unit("pkg/step/execute", "TestBindingsToAnUnfilledRoleAreCollisions"),
		},
		{
			Name: "a-role-is-filled-by-a-cache-that-is-behind", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    "	return r.Live != nil && obj.GetKind() == \"Role\"",
			New:    "	return r.Live == nil && obj.GetKind() == \"Role\"",
			Killer: unit("pkg/step/execute", "TestARoleWithForeignBindingsIsNotFilled"),
		},
		{
			Name: "a-role-is-created-by-a-cache-that-is-behind", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    "err != nil || !exposed {",
			New:    "err != nil || !exposed || live == nil {",
			Killer: unit("pkg/step/execute", "TestARoleIsNotCreatedForAnOutdatedBinding"),
		},
		{
			Name: "a-role-is-created-before-the-cache-is-asked-again", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    "	return r.CheckBindings(ctx, live, role)\n}\n\n// isExposed",
			New:    "	return nil\n}\n\n// isExposed",
			Killer: unit("pkg/step/execute", "TestARoleIsNotCreatedForAnOutdatedBinding"),
		},
		{
			Name: "a-seal-is-used-twice", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    `":" + rand.Text()`,
			New:    `":" + rand.Text()[:0]`,
			Killer: unit("pkg/step/execute", "TestARoleWithForeignBindingsIsNotFilled"),
		},
		{
			Name: "narrowed-rules-are-in-place", Rule: 7, File: "pkg/lib/apply/contains.go",
			Old:    "(len(rules) == 0 || Contains(rules, live[\"rules\"]))",
			New:    "len(rules) >= 0",
			Killer: unit("pkg/lib/apply", "TestComparesRulesExactly"),
		},
		{
			Name: "plans-fill-roles-of-waiting-bindings-later", Rule: 7, File: "pkg/step/execute/awaited.go",
			Old:    "	if err := r.CheckBindings(ctx, live, obj); err != nil {",
			New:    "	if err := r.CheckBindings(ctx, live, obj); err != nil && live != nil {",
			Killer: unit("pkg/step/execute", "TestBindingsToAnUnfilledRoleAreCollisions"),
		},
		{
			Name: "a-certificates-role-is-not-checked", Rule: 7, File: "pkg/step/execute/awaited.go",
			Old:    "	if !IsRole(role) ||",
			New:    `	if !IsRole(role) || role.GetLabels()["olm.permissions.hash"] == "" ||`,
			Killer: row("211"),
		},
		{
			Name: "adoption-by-label", Rule: 7, File: "pkg/lib/ownerutil/ownerutil.go",
			Old:    "	if err := o.Proofs.CheckSince(obj, obj.GetLabels()[names.LabelLineage], since); err != nil {",
			New:    "	if err := o.Proofs.CheckSince(obj, obj.GetLabels()[names.LabelLineage], since); false {",
			Killer: unit("pkg/lib/ownerutil", "TestOwnsRequiresTheMarkAndTheProof"),
		},
		{
			Name: "a-shared-serviceaccount-counts-as-created", Rule: 7, File: "pkg/controller/csv/prepare.go",
			Old:    `obj.GetKind() != "ServiceAccount" || s.owner.Shares(live) {`,
			New:    `obj.GetKind() != "ServiceAccount" {`,
			Killer: unit("pkg/controller/csv", "TestServiceAccountsAreSharedByTheInstallsOfANamespace"),
		},
		{
			Name: "serviceaccounts-are-shared-by-their-labels", Rule: 7, File: "pkg/lib/ownerutil/ownerutil.go",
			Old:    "			if o.Owns(obj) {",
			New:    "			if o.Proofs != nil {",
			Killer: unit("pkg/controller/csv", "TestServiceAccountsAreSharedByTheInstallsOfANamespace"),
		},
		{
			Name: "a-lineage-is-inherited-by-an-annotation", Rule: 7, File: "pkg/controller/csv/owner.go",
			Old:    `lineage.Package != "" && ownerutil.Owner{Lineage: lineage, Proofs: r.Proofs}.Owns(csv)`,
			New:    `lineage.Package != "" && ownerutil.Owner{Lineage: lineage, Proofs: r.Proofs}.Marks(csv)`,
			Killer: unit("pkg/controller/csv", "TestAVersionWithAnotherNameInheritsTheLineageOfTheOneItReplaces"),
		},
		{
			Name: "bounded-bindings-have-the-names-of-olm", Rule: 7, File: "pkg/install/hooks/plan.go",
			Old:    `if !p.in.Group.Bounded && p.in.Owner.Extension == "" {`,
			New:    `if p.in.Owner.Extension == "" {`,
			Killer: unit("pkg/controller/csv", "TestCallers"),
		},
		{
			Name: "gather-sees-no-collisions", Rule: 7, File: "pkg/step/execute/execute.go",
			Old:    "	if err := apply.Check(s.Live, s.Step.Object, s.Step.Owner); err != nil {",
			New:    "	if err := apply.Check(s.Live, s.Step.Object, s.Step.Owner); false {",
			Killer: unit("pkg/step/execute", "TestAnObjectWithLabelsOfAnotherInstallIsACollision"),
		},
		{
			Name: "extensions-write-although-objects-are-refused", Rule: 7, File: "pkg/controller/clusterextension/try.go",
			Old:    "	if s.findings.Clear() {",
			New:    "	if s.findings.Clear() || s.pass != nil {",
			Killer: row("224"),
		},
		{
			Name: "kept-content-needs-no-proof", Rule: 3, File: "pkg/controller/clusterextension/content.go",
			Old:    "!ok || !k.proofs.Proves(obj, k.holder(obj))",
			New:    "!ok || obj == nil",
			Killer: unit("pkg/controller/clusterextension", "TestKeptContentThatWasChangedIsNotUsed"),
		},
		{
			Name: "the-proof-omits-kept-content", Rule: 3, File: "pkg/controller/clusterextension/content.go",
			Old:    "ownerutil.Commitment(text) != id.Text",
			New:    "id.Text == \"\"",
			Killer: unit("pkg/controller/clusterextension", "TestKeptContentThatWasChangedIsNotUsed"),
		},
		{
			Name: "kept-content-of-any-version", Rule: 3, File: "pkg/controller/clusterextension/content.go",
			Old:    "id.Package != pkg || id.Name != installed.Name || id.Version != installed.Version",
			New:    "id.Package != pkg && id.Name != installed.Name",
			Killer: unit("pkg/controller/clusterextension", "TestKeptContentThatWasChangedIsNotUsed"),
		},
		{
			Name: "available-outlives-its-evidence", Rule: 3, File: "pkg/controller/clusterextension/available.go",
			Old:    "	if is.probedFor == \"\" {",
			New:    "	if is.probedFor == \"-\" {",
			Killer: unit("pkg/controller/clusterextension", "TestAvailableIsUnknownUntilObserved"),
		},
		{
			Name: "advice-deletes-definitions", Rule: 7, File: "pkg/lib/apply/remedy.go",
			Old:    `KindOf(live) == "CustomResourceDefinition"`,
			New:    `KindOf(live) == "-"`,
			Killer: unit("pkg/lib/apply", "TestRemediesNameLabelsThatExistAndKeepDefinitions"),
		},
		{
			Name: "edits-of-others-are-overwritten", Rule: 7, File: "pkg/lib/apply/edits.go",
			Old:    "			case !Contains(is, want):",
			New:    "			case false:",
			Killer: unit("pkg/lib/apply", "TestOmitsWhatOtherManagersChanged"),
		},
		{
			Name: "extensions-share-definitions", Rule: 7, File: "pkg/controller/clusterextension/try.go",
			Old:    "	return apply.Check(live, live, s.owner)",
			New:    "	return nil",
			Killer: row("224c"),
		},
		{
			Name: "an-extension-inherits-by-its-name", Rule: 7, File: "pkg/extension/assess/assess.go",
			Old:    "UID: ext.UID, Since: ext.CreationTimestamp.Time,",
			New:    "UID: ext.UID,",
			Killer: row("221a"),
		},
	}
}
