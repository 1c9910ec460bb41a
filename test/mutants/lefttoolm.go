package mutants

// leftToOLM returns the mutants of the guards that keep Remit away from namespaces that OLM v0 manages (scoped.LeftToOLM).
// Otherwise, both would write the same objects.
func leftToOLM() []Mutant {
	const (
		controllers = "pkg/controller/"
		cached      = "left, err := r.Default.Lookup(r.Client).LeavesToOLM(ctx, req.Namespace); left || err != nil {"
		uncached    = "left, err := r.Default.Lookup(r.Client).LeavesToOLM(ctx, req.Namespace); left && err != nil {"
		live        = "	if err := cmp.Or(scoped.CheckNotLeft(group), err); err != nil {"
		notLive     = "	if err := cmp.Or(scoped.CheckNotLeft(group), err); err != nil && group == nil {"
	)
	return []Mutant{
		{
			Name: "any-value-leaves-a-namespace-to-olm", File: "pkg/lib/scoped/left.go",
			Old:    "[names.AnnotationManagedBy] == names.ManagedByOLM",
			New:    `[names.AnnotationManagedBy] != ""`,
			Killer: unit("pkg/lib/scoped", "TestOLMManagesANamespaceIfAnOperatorGroupHasTheAnnotation"),
		},
		{
			Name: "one-of-two-groups-leaves-nothing-to-olm", File: "pkg/lib/scoped/left.go",
			Old:    "slices.ContainsFunc(list.Items, func",
			New:    "len(list.Items) == 1 && slices.ContainsFunc(list.Items, func",
			Killer: unit("pkg/lib/scoped", "TestOLMManagesANamespaceIfAnOperatorGroupHasTheAnnotation"),
		},
		{
			Name: "a-group-leaves-all-namespaces-to-olm", File: "pkg/lib/scoped/left.go",
			Old:    "client.InNamespace(namespace), ",
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestOLMManagesANamespaceIfAnOperatorGroupHasTheAnnotation"),
		},
		{
			Name: "statuses-say-that-olm-manages", File: "pkg/lib/scoped/left.go",
			Old:    "	return apierrors.NewConflict(operatorsv1.Resource(\"operatorgroups\"), og.Name,",
			New:    "	return apierrors.NewForbidden(operatorsv1.Resource(\"operatorgroups\"), og.Name,",
			Killer: unit("pkg/lib/scoped", "TestOLMManagesANamespaceIfAnOperatorGroupHasTheAnnotation"),
		},
		{
			Name: "operators-are-written-beside-olm", File: controllers + "operator/reconciler.go",
			Old:    "LeavesToOLM(ctx, req.Name); left || err != nil {",
			New:    "LeavesToOLM(ctx, req.Name); left && err != nil {",
			Killer: unit(controllers+"operator", "TestWritesOnlyOperatorsOfTheNamespaceAndTheirStatus"),
		},
		{
			Name: "operators-ignore-a-handover", File: controllers + "operator/watches.go",
			Old:    "		managedBy: obj.GetAnnotations()[names.AnnotationManagedBy], owners:",
			New:    "		owners:",
			Killer: unit(controllers+"operator", "TestChangesWakeTheAffectedNamespace"),
		},
		{
			Name: "groups-are-written-beside-olm", File: controllers + "operatorgroup/reconciler.go",
			Old:    "	case scoped.LeftToOLM(group):",
			New:    `	case scoped.LeftToOLM(group) && group.Name == "":`,
			Killer: unit(controllers+"operatorgroup", "TestWritesNothingInANamespaceOfOLM"),
		},
		{
			Name: "groups-ignore-a-handover", File: controllers + "operatorgroup/watches.go",
			Old:    "scoped.LeftToOLM(e.ObjectOld) != scoped.LeftToOLM(e.ObjectNew)",
			New:    "scoped.LeftToOLM(e.ObjectOld) && !scoped.LeftToOLM(e.ObjectOld)",
			Killer: unit(controllers+"operatorgroup", "TestWritesNothingInANamespaceOfOLM"),
		},
		{
			Name: "groups-publish-from-an-outdated-cache", File: controllers + "operatorgroup/publish.go", Old: live, New: notLive,
			Killer: unit(controllers+"operatorgroup", "TestWritesNothingInANamespaceThatTheAPIServerKnowsIsLeftToOLM"),
		},
		{
			Name: "plans-are-executed-beside-olm", File: controllers + "installplan/reconciler.go", Old: cached, New: uncached,
			Killer: unit(controllers+"installplan", "TestPlansOfOLMAreNotExecuted"),
		},
		{
			Name: "plans-of-olm-get-a-status", File: controllers + "installplan/run.go",
			Old:    "		} else if left {\n",
			New:    "		} else if left && s.plan == nil {\n",
			Killer: unit(controllers+"installplan", "TestAPlanOfOLMGetsNoStatusFromAnOutdatedCache"),
		},
		{
			Name: "plans-begin-although-olm-manages", File: controllers + "installplan/apply.go",
			Old:    "	if scoped.CheckNotLeft(group) != nil {\n		return outcome{}, errStale",
			New:    "	if scoped.CheckNotLeft(group) != nil && s.plan == nil {\n		return outcome{}, errStale",
			Killer: unit(controllers+"installplan", "TestAPlanThatIsHandedOverToOLMStops"),
		},
		{
			Name: "plans-continue-although-olm-manages", File: controllers + "installplan/apply.go",
			Old:    "	if scoped.CheckNotLeft(group) != nil {\n		return errStale",
			New:    "	if scoped.CheckNotLeft(group) != nil && s.plan == nil {\n		return errStale",
			Killer: unit(controllers+"installplan", "TestAPlanThatIsHandedOverToOLMStops"),
		},
		{
			Name: "conditions-are-written-beside-olm", File: controllers + "operatorcondition/reconciler.go",
			Old:    "LeavesToOLM(ctx, req.Namespace); left || err != nil {",
			New:    "LeavesToOLM(ctx, req.Namespace); left && err != nil {",
			Killer: unit(controllers+"operatorcondition", "TestWritesOnlyTheOperatorConditionAndItsStatus"),
		},
		{
			Name: "catalogs-are-read-beside-olm", File: controllers + "catalogsource/reconciler.go",
			Old:    "u.GetDeletionTimestamp() != nil || scoped.LeftToOLM(u) {",
			New:    `u.GetDeletionTimestamp() != nil || scoped.LeftToOLM(u) && u.GetName() == "" {`,
			Killer: unit(controllers+"catalogsource", "TestACatalogThatWillNotBeLoadedIsUnavailable"),
		},
		{
			Name: "csvs-are-installed-beside-olm", File: controllers + "csv/reconciler.go", Old: cached, New: uncached,
			Killer: unit(controllers+"csv", "TestNothingIsWrittenInANamespaceOfOLM"),
		},
		{
			Name: "csvs-of-olm-get-a-status", File: controllers + "csv/group.go",
			Old:    "		s.leftToOLM, s.facts.Group = left, &",
			New:    "		s.leftToOLM, s.facts.Group = left && err != nil, &",
			Killer: unit(controllers+"csv", "TestNothingIsWrittenInANamespaceOfOLMWhoseGroupIsNotCached"),
		},
		{
			Name: "csvs-are-installed-from-an-outdated-cache", File: controllers + "csv/guard.go", Old: live, New: notLive,
			Killer: unit(controllers+"csv", "TestNothingIsWrittenAsTheAccountOnceTheAPIServerKnowsTheNamespaceIsLeftToOLM"),
		},
		{
			Name: "csvs-are-cleaned-up-from-an-outdated-cache", File: controllers + "csv/finalize.go",
			Old:    "	if left := scoped.CheckNotLeft(group); left != nil {",
			New:    `	if left := scoped.CheckNotLeft(group); left != nil && account.Name == "" {`,
			Killer: unit(controllers+"csv", "TestNothingIsCleanedUpInANamespaceOfOLM"),
		},
		{
			Name: "an-excess-is-removed-beside-olm", File: "pkg/lib/scoped/bound.go",
			Old:    " && b.LeftToOLM == other.LeftToOLM",
			New:    "",
			Killer: unit(controllers+"csv", "TestWhatStaysAfterTheGracePeriod"),
		},
		{
			Name: "copies-are-written-beside-olm", File: controllers + "copiedcsv/reconciler.go",
			Old:    "	if left || err != nil {",
			New:    "	if left && err != nil {",
			Killer: unit(controllers+"copiedcsv", "TestCopiesOfANamespaceOfOLMAreLeftAlone"),
		},
		{
			Name: "copies-are-written-from-an-outdated-cache", File: controllers + "copiedcsv/pass.go", Old: live, New: notLive,
			Killer: unit(controllers+"copiedcsv", "TestCopiesNothingFromANamespaceThatTheAPIServerKnowsIsLeftToOLM"),
		},
		{
			Name: "subscriptions-are-resolved-beside-olm", File: controllers + "subscription/reconciler.go",
			Old:    "	if !left {\n		tracked",
			New:    "	if left = false; !left {\n		tracked",
			Killer: unit(controllers+"subscription", "TestASubscriptionOfOLMGetsNoStatus"),
		},
		{
			Name: "subscriptions-of-olm-get-a-status", File: controllers + "subscription/reconciler.go",
			Old:    "	if left || world.leftToOLM {",
			New:    "	if left {",
			Killer: unit(controllers+"subscription", "TestASubscriptionOfOLMGetsNoStatusFromAnOutdatedCache"),
		},
	}
}
