package mutants

// scopedCache returns the mutants of the guards of pkg/lib/scopedcache: what is read belongs to an owner that claimed it and is
// allowed to watch it, and what is no longer allowed is noticed. All their tests are fast.
func scopedCache() []Mutant {
	const pkg = "pkg/lib/scopedcache"
	return []Mutant{
		{
			Name: "objects-are-read-without-a-claim", File: pkg + "/read.go",
			Old:    "	if !k.running || !k.isClaimed(scope) {\n		return false\n",
			New:    "	if !k.running {\n		return false\n",
			Killer: unit(pkg, "TestALingeringWatchServesNobody"),
		},
		{
			Name: "lingering-watches-of-the-cluster-are-claims", File: pkg + "/read.go",
			Old:    "	case k.cluster.claimed():\n		return true\n",
			New:    "	case k.cluster.wanted():\n		return true\n",
			Killer: unit(pkg, "TestALingeringWatchServesNobody"),
		},
		{
			Name: "lingering-watches-of-objects-are-claims", File: pkg + "/read.go",
			Old:    "	return scope.object && n != nil && n.claimed()\n",
			New:    "	return scope.object && n != nil\n",
			Killer: unit(pkg, "TestALingeringWatchServesNobody"),
		},
		{
			Name: "coalesced-watches-are-claims", File: pkg + "/read.go",
			Old:    "	case ns.claimed():\n		return true\n	}\n	n := ",
			New:    "	case ns.wanted():\n		return true\n	}\n	n := ",
			Killer: unit(pkg, "TestACoalescedWatchServesOnlyClaimedObjects"),
		},
		{
			Name: "watches-in-any-state-are-live", File: pkg + "/read.go",
			Old:    "	return f != nil && f.state == Live\n",
			New:    "	return f != nil\n",
			Killer: unit(pkg, "TestAListFailsWhileTheWatchIsInterrupted"),
		},
		{
			Name: "refused-watches-serve", File: pkg + "/reports.go",
			Old:    `	f.serving, f.ready, f.collected, f.version, f.floors = false, false, nil, "", nil`,
			New:    `	f.ready, f.collected, f.version, f.floors = false, nil, "", nil`,
			Killer: unit(pkg, "TestFeedsThatSucceedARefusedFeedRevertNothing"),
		},
		{
			Name: "a-refusal-during-a-get-is-not-found", File: pkg + "/read.go",
			Old:    "		case k.generationOf(scope) == generation && c.reads(ctx, k):",
			New:    "		case generation == generation+0 && c.reads(ctx, k):",
			Killer: unit(pkg, "TestAReadDuringARefusalIsRefused"),
		},
		{
			Name: "a-refusal-during-a-list-is-an-empty-list", File: pkg + "/list.go",
			Old:    "	done = k.generationOf(parts...) == generation && ",
			New:    "	done = generation == generation+0 && ",
			Killer: unit(pkg, "TestAReadDuringARefusalIsRefused"),
		},
		{
			Name: "dropped-objects-are-not-counted", File: pkg + "/serve.go",
			Old:    "		k.dropped(obj.GetNamespace())\n",
			New:    "",
			Killer: unit(pkg, "TestAReadDuringARefusalIsRefused"),
		},
		{
			Name: "objects-stay-after-their-release", File: pkg + "/plan.go",
			Old:    "		if served {\n			k.abandon(n.scope, false)\n		}\n",
			New:    "		_ = served\n",
			Killer: unit(pkg, "TestObjectsOutsideOfTheScopeAreNotStored"),
		},
		{
			Name: "objects-of-a-released-namespace-stay", File: pkg + "/plan.go",
			Old:    "	k.abandon(ns.scope, false)\n",
			New:    "",
			Killer: unit(pkg, "TestANarrowerFeedThatLagsBehindRevertsNothing"),
		},
		{
			Name: "objects-of-a-released-cluster-stay", File: pkg + "/plan.go",
			Old:    "	k.abandon(Cluster(), false)\n",
			New:    "",
			Killer: unit(pkg, "TestDroppedObjectsAreAddedAgain"),
		},
		{
			Name: "a-release-ends-the-claims-of-others", File: pkg + "/kind.go",
			Old:    "	delete(n.owners, owner)\n",
			New:    "	clear(n.owners)\n",
			Killer: unit(pkg, "TestAReleaseKeepsTheClaimsOfOthers"),
		},
		{
			Name: "a-release-ends-no-claims", File: pkg + "/kind.go",
			Old:    "	delete(n.owners, owner)\n",
			New:    "",
			Killer: unit(pkg, "TestAReleaseKeepsTheClaimsOfOthers"),
		},
		{
			Name: "sessions-keep-all-claims", File: pkg + "/session.go",
			Old:    "		return !again\n",
			New:    "		return !again && again\n",
			Killer: unit(pkg, "TestASessionKeepsOnlyWhatItRenewed"),
		},
		{
			Name: "reads-renew-wider-claims", File: pkg + "/read.go",
			Old:    "!again && !first {",
			New:    "!again && !first && c.options.KeepOwners {",
			Killer: unit(pkg, "TestASessionKeepsOnlyWhatItRenewed"),
		},
		{
			Name: "owners-need-no-uid", File: pkg + "/scope.go",
			Old:    `	if obj.GetUID() == "" {`,
			New:    `	if obj.GetName() == "" {`,
			Killer: unit(pkg, "TestAnOwnerHasAUID"),
		},
		{
			Name: "deleted-owners-claim", File: pkg + "/claims.go",
			Old:    "	if _, deleted := c.gone.Get(owner.UID); deleted {",
			New:    "	if _, deleted := c.gone.Get(owner.UID); deleted && c.options.KeepOwners {",
			Killer: unit(pkg, "TestAnOwnerThatReappearsCanClaim"),
		},
		{
			Name: "claims-outlive-their-owners", File: pkg + "/events.go",
			Old:    "			out[owner] = c.releaseLocked(owner)\n",
			New:    "			_ = owner\n",
			Killer: unit(pkg, "TestOwnersThatWereDeletedWhileDeniedAreReleased"),
		},
		{
			Name: "a-recreated-owner-keeps-claims", File: pkg + "/objects.go",
			Old:    "	if d.uid != uid {",
			New:    `	if uid == "" {`,
			Killer: unit(pkg, "TestOwnersThatWereDeletedWhileDeniedAreReleased"),
		},
		{
			Name: "a-list-decides-about-owners-elsewhere", File: pkg + "/objects.go",
			Old:    "!listed && scope.Covers(d.scope) {",
			New:    `!listed && (scope.Covers(d.scope) || d.uid != "") {`,
			Killer: unit(pkg, "TestAListOfANamespaceReleasesNoOwnersElsewhere"),
		},
		{
			Name: "a-recreated-object-is-an-update", File: pkg + "/objects.go",
			Old:    "	if ok && old.GetUID() != obj.GetUID() {",
			New:    "	if ok && old.GetUID() != obj.GetUID() && o.index == nil {",
			Killer: unit(pkg, "TestAFeedThatIsAheadReportsChanges"),
		},
		{
			Name: "a-list-deletes-objects-elsewhere", File: pkg + "/serve.go",
			Old:    "	for _, key := range k.objects.keysIn(f.scope) {\n		obj, ok := k.objects.get(key)\n		if _,",
			New:    "	for _, key := range k.objects.index.ListKeys() {\n		obj, ok := k.objects.get(key)\n		if _,",
			Killer: unit(pkg, "TestAListIsNotDelayedByOtherNamespaces"),
		},
		{
			Name: "revoked-bindings-are-no-hints", File: pkg + "/watchrbac.go",
			Old:    "		w.count(was, -1)\n",
			New:    "",
			Killer: unit(pkg, "TestWhichChangesOfRBACAreHints"),
		},
		{
			Name: "revoked-rules-are-no-hints", File: pkg + "/watchrbac.go",
			Old:    `		w.hintRole(roleKey{"Role", subject.Namespace, subject.Name})` + "\n",
			New:    "",
			Killer: unit(pkg, "TestWhichChangesOfRBACAreHints"),
		},
		{
			Name: "revoked-rules-of-the-cluster-are-no-hints", File: pkg + "/watchrbac.go",
			Old:    `		w.hintRole(roleKey{"ClusterRole", "", subject.Name})` + "\n",
			New:    "",
			Killer: unit(pkg, "TestWhichChangesOfRBACAreHints"),
		},
		{
			Name: "bindings-of-groups-are-no-hints", File: pkg + "/watchrbac.go",
			Old:    "		return slices.Contains(w.groups, s.Name)\n",
			New:    "		return false\n",
			Killer: unit(pkg, "TestWhichChangesOfRBACAreHints"),
		},
		{
			Name: "bindings-name-accounts-without-namespace", File: pkg + "/watchrbac.go",
			Old:    `		if s.Namespace != "" {`,
			New:    `		if s.Namespace == "" {`,
			Killer: unit(pkg, "TestWhichChangesOfRBACAreHints"),
		},
		{
			Name: "interrupted-watches-of-rbac-are-no-hints", File: pkg + "/watchrbac.go",
			Old:    "		if status.State == Live && missed[kind] {",
			New:    "		if status.State != Live && missed[kind] {",
			Killer: unit(pkg, "TestAnInterruptedWatchOfRBACIsAHint"),
		},
		{
			Name: "rechecks-of-all-namespaces-reach-none", File: pkg + "/recheck.go",
			Old:    `(namespace == "" || n.scope.namespace == namespace)`,
			New:    `n.scope.namespace == namespace`,
			Killer: unit(pkg, "TestARecheckReachesEachWatchOfItsNamespace"),
		},
	}
}
