package mutants

// narrow returns the mutants of the guards that decide what a live webhook may no longer intercept.
func narrow() []Mutant {
	const file, revoked, kept = "pkg/controller/csv/narrow.go", "TestAWebhookIsNarrowedInEveryState", "TestAWebhookThatIsNotNarrowed"
	in := func(name string, rule int, old, changed, killer string) Mutant {
		return Mutant{Name: name, Rule: rule, File: file, Old: old, New: changed, Killer: unit("pkg/controller/csv", killer)}
	}
	const preflight, extension, narrowed = "pkg/preflight/interceptions.go", "pkg/controller/clusterextension/narrow.go", "TestAWebhookIsNarrowedToTheIdentity"
	elsewhere := func(name, file, old, changed, killer string) Mutant {
		return Mutant{Name: name, Rule: 1, File: file, Old: old, New: changed, Killer: unit("pkg/controller/csv", killer)}
	}
	ofExtensions := func(name, old, changed, killer string) Mutant {
		return Mutant{Name: name, Rule: 1, File: extension, Old: old, New: changed, Killer: unit("pkg/controller/clusterextension", killer)}
	}
	bounds := func(name, old, changed string) Mutant {
		return Mutant{Name: name, Rule: 1, File: "pkg/lib/scoped/bound.go", Old: old, New: changed,
			Killer: unit("pkg/lib/scoped", "TestRecordedAccountsBoundTheWebhooksOfANamespaceWithoutAnAccount")}
	}
	return []Mutant{
		ofExtensions("webhooks-that-no-inventory-lists-are-kept", "	if is := s.saved.Status.Install; is != nil {",
			"	if is := s.saved.Status.Install; is != nil && len(out) > 0 {", "TestWebhooksAreBoundedWithoutAnInventory"),
		{
			Name: "removals-of-extensions-are-reported-once", Rule: 8, File: "pkg/controller/clusterextension/run.go",
			Old: "			is.unsaved = now\n", New: "			is.unsaved = nil\n",
			Killer: unit("pkg/controller/clusterextension", "TestARemovalIsReportedAfterAConflict"),
		},
		{
			Name: "removals-of-groups-are-reported-once", Rule: 8, File: "pkg/controller/operatorgroup/reconciler.go",
			Old: "		return r.unsaved.Get(key)", New: "		return is",
			Killer: unit("pkg/controller/operatorgroup", "TestARemovalIsReportedAfterAConflict"),
		},
		elsewhere("webhooks-keep-revoked-namespaces", preflight, "return held || err != nil", "return held || !held", "TestAWebhookLeavesANamespaceThatNoLongerPermitsIt"),
		in("webhooks-of-replaced-versions-are-not-narrowed", 1, "	if s.leftToOLM {", "	if s.leftToOLM || s.facts.ReplacedBy != \"\" {", revoked),
		elsewhere("webhooks-of-deleted-versions-are-not-narrowed", "pkg/controller/csv/reconciler.go", "r.gatherSiblings(ctx, s), r.gatherIntercepting(ctx, s)); err", "r.gatherSiblings(ctx, s)); err", revoked),
		in("webhooks-are-narrowed-only-as-the-account", 6, "if scoped.ReasonOf(err) == \"\" && !isReported(err) {", "if err != nil {", revoked),
		in("narrowed-webhooks-make-the-operator-fail", 6, "cuts, err := s.hooks.Within(s.live)", "cuts, err := []webhook.Cut(nil), error(nil)", "TestAWebhookLeavesANamespaceThatNoLongerPermitsIt"),
		elsewhere("webhooks-are-narrowed-by-the-cache", preflight, "return i.Confirmer.Confirm(ctx, fmt.Sprintf(\"%s%s %s\", i.Asker, identity, asker), report), nil", "return report, nil", kept),
		in("webhooks-are-narrowed-by-an-earlier-answer", 1, "&preflight.Confirmer{Ask: r.confirmer.Ask})", "r.confirmer)", kept),
		elsewhere("webhooks-are-narrowed-without-an-answer", preflight, "return false, Undecided(report)", "return false, nil", kept),
		in("webhooks-are-compared-with-an-outdated-operatorgroup", 3, "!current.Same(bound)", "current.LeftToOLM", kept),
		in("webhooks-are-narrowed-despite-the-annotation", 3, "if bound.KeptBy != \"\" {", "if bound.KeptBy == \"*\" {", kept),
		in("webhooks-of-the-default-account-are-narrowed", 1, "|| bound.Default {", "{", kept),
		{
			Name: "the-first-answer-is-final", Rule: 1, File: "pkg/preflight/review.go",
			Old:    "c.now().Before(known.recheck) {",
			New:    "c.now().After(time.Time{}) {",
			Killer: unit("pkg/preflight", "TestAsksAgainOnceWhatRBACDoesNotGrant"),
		},
		in("webhooks-without-an-account-are-not-compared-with-the-recorded-one", 1, "bound, err := r.Default.Lookup(r.Client).HookBound(", "bound, err := r.Default.Lookup(r.Client).Bound(", revoked),
		in("webhooks-are-compared-with-an-outdated-record", 3, "r.live().HookBound(", "r.Default.Lookup(r.Client).HookBound(", kept),
		elsewhere("only-one-group-narrows-webhooks", "pkg/lib/scoped/bound.go", "	for _, key := range b.Accounts {\n		if key.Namespace", "	for _, key := range b.Accounts[:0] {\n		if key.Namespace", revoked),
		{
			Name: "accounts-of-other-namespaces-are-recorded", Rule: 1, File: "pkg/lib/scoped/bound.go",
			Old: "(key == l.Default.Account || in == namespace) && l.may", New: "(key == l.Default.Account || in != \"\") && l.may",
			Killer: unit("pkg/lib/scoped", "TestTheAccountsOfANamespaceBoundItsOperators"),
		},
		bounds("copies-record-accounts", "csv.GetLabels()[names.LabelCopiedFrom] == \"\" && (key", "(key"),
		bounds("reserved-accounts-are-recorded", "in == namespace) && l.mayBound(key)", "in == namespace)"),
		bounds("unlimited-recorded-accounts", "len(out) > maxBounding {", "len(out) > 100*maxBounding {"),
		bounds("recorded-accounts-exceed-those-of-groups", "	if err != nil || len(out.Accounts) > 0 {", "	if err != nil {"),
		ofExtensions("webhooks-of-extensions-keep-what-is-revoked", "	if s.checked && s.findings.Empty() && len", "	if true || len", narrowed),
		ofExtensions("webhooks-of-stopped-extensions-are-not-narrowed", "	if s.checked && s.findings.Empty() && len", "	if s.findings.Empty() || len", "TestAWebhookIsNarrowedIfTheRunStopsEarlier"),
		ofExtensions("webhooks-of-extensions-are-narrowed-despite-the-annotation", "if scoped.KeepsExcess(s.ext) {", "if s.ext == nil {", "TestAWebhookThatIsKept"),
		ofExtensions("webhooks-of-extensions-that-nobody-may-read-are-not-reported", "	if isRefusal(err) {\n", "	if isRefusal(err) && live != nil {\n", "TestAWebhookThatTheIdentityMayNotRead"),
		{
			Name: "versions-that-are-not-installed-use-definitions", Rule: 8, File: "pkg/controller/installplan/definitions.go",
			Old:    "		if installed {",
			New:    "		if installed || !mine {",
			Killer: unit("pkg/controller/installplan", "TestTheCRDAccountChangesOnlyDefinitionsThatNobodyElseUses"),
		},
		{
			Name: "plans-that-wait-for-other-users-sleep", Rule: 8, File: "pkg/controller/installplan/reconciler.go",
			Old:    "		if err == nil && !run.recheckAt.IsZero() {",
			New:    "		if err != nil && !run.recheckAt.IsZero() {",
			Killer: unit("pkg/controller/installplan", "TestTheCRDAccountChangesOnlyDefinitionsThatNobodyElseUses"),
		},
		{
			Name: "objects-of-the-cluster-stay-intercepted", Rule: 1, File: "pkg/install/webhook/narrow.go",
			Old:    "	if len(demand.Cluster) > 0 && ",
			New:    "	if len(demand.Cluster) > 99 && ",
			Killer: unit("pkg/install/webhook", "TestNarrowRemovesWhatIsNotHeld"),
		},
		{
			Name: "objects-that-may-be-of-the-cluster-stay-intercepted", Rule: 1, File: "pkg/install/webhook/narrow.go",
			Old:    "	if reachesFurther(",
			New:    "	if false && reachesFurther(",
			Killer: unit("pkg/install/webhook", "TestNarrowRemovesWhatIsNotHeld"),
		},
		{
			Name: "unlimited-namespaces-of-a-live-webhook", Rule: 0, File: "pkg/install/webhook/narrow.go",
			Old:    " && len(e.Values) <= maxSelected {",
			New:    " && len(e.Values) <= 100*maxSelected {",
			Killer: unit("pkg/install/webhook", "TestNarrowExaminesABoundedNumberOfNamespaces"),
		},
		{
			Name: "live-webhooks-of-any-size-are-expanded", Rule: 0, File: "pkg/install/webhook/narrow.go",
			Old:    "expanded > maxResources {",
			New:    "expanded > maxResources<<20 {",
			Killer: unit("pkg/install/webhook", "TestNarrowDoesNotExpandAConfigurationThatIsTooLarge"),
		},
		{
			Name: "webhooks-are-narrowed-without-a-finding", Rule: 3, File: "pkg/install/warrant/warrant.go",
			Old:    "	case d == Narrow && !f.Intercepts:",
			New:    "	case d == Narrow && d == Shrink:",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
	}
}
