package mutants

// groupLabels returns the mutants of the rules that labels of OperatorGroups do not accumulate on Namespaces, and of the rules for what
// users of other namespaces can read or set: Events about leftovers, copies, and annotations of the Pods of registries.
func groupLabels() []Mutant {
	const pkg = "pkg/controller/operatorgroup"
	const labels, publish, excess = pkg + "/labels.go", pkg + "/publish.go", pkg + "/excess.go"
	return []Mutant{
		{
			Name: "labels-of-replaced-groups-stay", Rule: 8, File: pkg + "/reconciler.go",
			Old:    "	if err == nil && !annotated {",
			New:    "	if false {",
			Killer: unit(pkg, "TestLabelsOfReplacedGroupsAreRemoved"),
		},
		{
			Name: "labels-of-deleted-groups-stay", Rule: 6, File: pkg + "/cleanup.go",
			Old:    "	after, err = r.sweep(ctx, account, func() (client.Client, error) { return c, nil })",
			New:    "	after = 0",
			Killer: unit(pkg, "TestLabelsOfGroupsThatDoNotExistAreRemoved"),
		},
		{
			Name: "labels-of-groups-that-the-cache-lacks-are-removed", Rule: 6, File: labels,
			Old:    "func(key string) bool { return exists[key] })\n		if len(keys) == 0 {",
			New:    "func(key string) bool { return false && exists[key] })\n		if len(keys) == 0 {",
			Killer: unit(pkg, "TestLabelsOfGroupsThatTheAPIServerKnowsStay"),
		},
		{
			Name: "labels-are-removed-without-permission", Rule: 1, File: labels,
			Old:    "return len(r.missingForLabel(account, namespace)) > 0 })",
			New:    "return false })",
			Killer: unit(pkg, "TestLabelsThatTheAccountCannotRemoveStay"),
		},
		{
			Name: "all-labels-are-removed-in-one-reconcile", Rule: 8, File: labels,
			Old:    "[:min(len(orphaned), maxSwept)]",
			New:    "",
			Killer: unit(pkg, "TestLabelsAreRemovedInTurns"),
		},
		{
			Name: "groups-are-listed-in-each-reconcile", Rule: 8, File: labels,
			Old:    "Sub(now); left > 0 {",
			New:    "Sub(now); false {",
			Killer: unit(pkg, "TestLabelsAreRemovedInTurns"),
		},
		{
			Name: "namespaces-get-any-number-of-labels", Rule: 8, File: labels,
			Old:    "		if full[name] {",
			New:    "		if false {",
			Killer: unit(pkg, "TestANamespaceWithManyLabelsGetsNoMore"),
		},
		{
			Name: "labels-for-a-group-that-the-api-server-replaced", Rule: 1, File: publish,
			Old:    "	if !isSame(group, f.Group) {",
			New:    "	if false {",
			Killer: unit(pkg, "TestLabelsNothingForAGroupThatWasReplaced"),
		},
		{
			Name: "labels-for-a-group-that-was-replaced-meanwhile", Rule: 1, File: publish,
			Old:    "	if !exists || !isSame(current, group) {",
			New:    "	if !exists {",
			Killer: unit(pkg, "TestLabelsNothingForAGroupThatWasReplaced"),
		},
		{
			Name: "events-describe-objects-of-other-namespaces", Rule: 1, File: excess,
			Old:    "		if o.Object.GetNamespace() == namespace {",
			New:    "		if o.Object.GetNamespace() == namespace || true {",
			Killer: unit(pkg, "TestEventsDescribeOnlyObjectsOfTheirNamespace"),
		},
		{
			Name: "events-in-targets-name-the-accounts", Rule: 1, File: excess,
			Old:    "	if namespace == s.bound.Namespace {",
			New:    "	if true {",
			Killer: unit(pkg, "TestEventsDescribeOnlyObjectsOfTheirNamespace"),
		},
		{
			Name: "events-name-what-webhooks-intercept", Rule: 1, File: excess,
			Old:    "		if len(in[i].Intercepts) > 0 {",
			New:    "		if false {",
			Killer: unit(pkg, "TestEventsAboutWebhooksNameNoNamespaces"),
		},
		{
			Name: "copies-have-messages-about-other-targets", Rule: 1, File: "pkg/controller/copiedcsv/content.go",
			Old:    `		st.Conditions[i].Message = ""`,
			New:    "		_ = st.Conditions[i].Message",
			Killer: unit("pkg/controller/copiedcsv", "TestCopiesShowNothingAboutOtherTargets"),
		},
		{
			Name: "copies-have-the-requirements-of-the-source", Rule: 1, File: "pkg/controller/copiedcsv/content.go",
			Old:    "	st.RequirementStatus = nil",
			New:    "	_ = st.RequirementStatus",
			Killer: unit("pkg/controller/copiedcsv", "TestCopiesShowNothingAboutOtherTargets"),
		},
		{
			Name: "registries-carry-instructions-to-other-programs", Rule: 3, File: "pkg/catalog/server/objects.go",
			Old:    "		if bundle.ForDisplay(key) {",
			New:    "		if true {",
			Killer: unit("pkg/catalog/server", "TestAPodHasNoAnnotationsThatOtherProgramsActOn"),
		},
		{
			Name: "registries-carry-reserved-keys", Rule: 3, File: "pkg/catalog/server/objects.go",
			Old:    `	kept, _ := bundle.Keep("Pod", r.Source.Annotations)`,
			New:    "	kept := r.Source.Annotations",
			Killer: unit("pkg/catalog/server", "TestAPodHasNoAnnotationsThatOtherProgramsActOn"),
		},
	}
}
