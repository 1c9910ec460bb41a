package mutants

// extensions returns the mutants of the guards of pkg/controller/clusterextension that other files do not contain: whose identity,
// caches and objects these are.
func extensions() []Mutant {
	const (
		pkg     = "pkg/controller/clusterextension"
		opening = "TestTheExtensionAndItsAccountAreReadAgainBeforeTheFirstRequest"
	)
	return []Mutant{
		{
			Name: "recreated-accounts-share-a-cache", Rule: 5, File: pkg + "/watches.go",
			Old:    `identity.Username() + " " + string(identity.Account.UID)`,
			New:    `identity.Username()`,
			Killer: unit(pkg, "TestACacheBelongsToOneIdentity"),
		},
		{
			Name: "identities-share-a-cache", Rule: 5, File: pkg + "/watches.go",
			Old:    `identity.Username() + " " + string(identity.Account.UID)`,
			New:    `string(identity.Account.UID)`,
			Killer: unit(pkg, "TestACacheBelongsToOneIdentity"),
		},
		{
			Name: "caches-outlive-their-last-extension", Rule: 5, File: pkg + "/watches.go",
			Old:    "	if len(c.claims) == 0 {\n		c.end()",
			New:    "	if len(c.claims) < 0 {\n		c.end()",
			Killer: unit(pkg, "TestACacheBelongsToOneIdentity"),
		},
		{
			Name: "extensions-keep-the-cache-of-an-earlier-identity", Rule: 5, File: pkg + "/watches.go",
			Old:    "	if w.users[extension] != key {\n		w.drop(extension)\n	}\n",
			New:    "",
			Killer: unit(pkg, "TestACacheBelongsToOneIdentity"),
		},
		{
			Name: "clients-are-opened-for-an-outdated-extension", Rule: 5, File: pkg + "/open.go",
			Old:    "	if err := s.checkCurrent(ctx); err != nil {\n		return outcome{}, err\n	}\n",
			New:    "",
			Killer: unit(pkg, opening),
		},
		{
			Name: "identities-are-looked-up-in-the-cache", Rule: 5, File: pkg + "/open.go",
			Old:    "s.lookUp(ctx, s.Live)",
			New:    "s.lookUp(ctx, s.Client)",
			Killer: unit(pkg, opening),
		},
		{
			Name: "recreated-accounts-are-used", Rule: 5, File: pkg + "/open.go",
			Old:    "!exists || identity != s.identity {",
			New:    "!exists || identity.Account.Name != s.identity.Account.Name {",
			Killer: unit(pkg, opening),
		},
		{
			Name: "identities-have-no-uid", Rule: 5, File: pkg + "/identity.go",
			Old:    "	identity.Account.UID = sa.UID\n",
			New:    "",
			Killer: unit(pkg, opening),
		},
		{
			Name: "recreated-extensions-are-current", Rule: 3, File: pkg + "/run.go",
			Old:    "!exists || live.UID != s.ext.UID || ",
			New:    "!exists || ",
			Killer: unit(pkg, opening),
		},
		{
			Name: "deleted-extensions-are-current", Rule: 3, File: pkg + "/run.go",
			Old:    "(live.DeletionTimestamp == nil) != (s.ext.DeletionTimestamp == nil) || ",
			New:    "",
			Killer: unit(pkg, opening),
		},
		{
			Name: "changed-extensions-are-current", Rule: 3, File: pkg + "/run.go",
			Old:    " || live.Generation != s.ext.Generation) {",
			New:    ") {",
			Killer: unit(pkg, opening),
		},
		{
			Name: "missing-extensions-are-current", Rule: 3, File: pkg + "/run.go",
			Old:    "if err == nil && (!exists || live.UID",
			New:    "if err == nil && exists && (live.UID",
			Killer: unit(pkg, opening),
		},
		{
			Name: "extensions-remember-earlier-ones", Rule: 3, File: pkg + "/run.go",
			Old:    `is.uid != "" && is.uid != ext.UID {`,
			New:    `is.uid != "" && ext.UID == "" {`,
			Killer: unit(pkg, "TestARecreatedExtensionIsNotRemembered"),
		},
		{
			Name: "another-identity-tries-nothing", Rule: 5, File: pkg + "/render.go",
			Old:    "parts := []string{s.identity.Username(), string(s.identity.Account.UID)}",
			New:    "parts := []string{string(s.identity.Account.UID)}",
			Killer: unit(pkg, "TestAnotherIdentityBeginsAnotherPass"),
		},
		{
			Name: "a-recreated-account-tries-nothing", Rule: 5, File: pkg + "/render.go",
			Old:    "parts := []string{s.identity.Username(), string(s.identity.Account.UID)}",
			New:    "parts := []string{s.identity.Username()}",
			Killer: unit(pkg, "TestAnotherIdentityBeginsAnotherPass"),
		},
		{
			Name: "accounts-of-others-were-made-by-the-install", Rule: 1, File: pkg + "/try.go",
			Old:    "ok := s.states[st.Object]; ok && state.Live != nil && s.owner.Owns(state.Live) {",
			New:    "ok := s.states[st.Object]; ok && state.Live != nil {",
			Killer: unit(pkg, "TestOnlyAServiceAccountOfTheInstallWasMadeByIt"),
		},
		{
			Name: "cached-accounts-of-others-were-made-by-the-install", Rule: 1, File: pkg + "/try.go",
			Old:    "		if err == nil && live != nil && s.owner.Owns(live) {",
			New:    "		if err == nil && live != nil {",
			Killer: unit(pkg, "TestOnlyAServiceAccountOfTheInstallWasMadeByIt"),
		},
		{
			Name: "upgrades-remove-definitions", Rule: 6, File: pkg + "/prune.go",
			Old:    "		if watchedByController(obj) == nil { //",
			New:    "		if obj != nil { //",
			Killer: unit(pkg, "TestWhatAnUpgradeRemoves"),
		},
		{
			Name: "upgrades-keep-apiservices", Rule: 6, File: pkg + "/prune.go",
			Old:    `		&apiregistrationv1.APIServiceList{}: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"),` + "\n",
			New:    `		&corev1.ServiceList{}: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"),` + "\n",
			Killer: unit(pkg, "TestWhatAnUpgradeRemoves"),
		},
		{
			Name: "labels-suffice-for-removal", Rule: 6, File: pkg + "/prune.go",
			Old:    "ok && s.owner.Owns(obj) && obj.GetDeletionTimestamp() == nil {",
			New:    "ok && obj.GetDeletionTimestamp() == nil {",
			Killer: unit(pkg, "TestWhatAnUpgradeRemoves"),
		},
		{
			Name: "replaced-objects-are-as-desired", Rule: 7, File: pkg + "/observe.go",
			Old:    "	if live.GetUID() != m.uid {",
			New:    "	if live.GetUID() == \"\" {",
			Killer: unit(pkg, "TestAnObjectThatWasReplacedIsNotInTheDesiredState"),
		},
		{
			Name: "objects-without-proof-are-as-desired", Rule: 7, File: pkg + "/observe.go",
			Old:    "!hasMetadata(live, desired) || !s.owner.Owns(live) {",
			New:    "!hasMetadata(live, desired) {",
			Killer: unit(pkg, "TestAnObjectThatWasReplacedIsNotInTheDesiredState"),
		},
		{
			Name: "objects-without-owner-are-as-desired", Rule: 7, File: pkg + "/observe.go",
			Old:    "contains(live.GetAnnotations(), desired.GetAnnotations()) &&\n		!lacksOwner(live, desired)",
			New:    "contains(live.GetAnnotations(), desired.GetAnnotations())",
			Killer: unit(pkg, "TestAnObjectThatWasReplacedIsNotInTheDesiredState"),
		},
		{
			Name: "finalizers-are-written-from-an-outdated-cache", Rule: 6, File: pkg + "/finalize.go",
			Old:    "client.MergeFromWithOptions(s.saved, client.MergeFromWithOptimisticLock{})",
			New:    "client.MergeFrom(s.saved)",
			Killer: unit(pkg, "TestTheFinalizerOfAChangedExtensionIsNotWritten"),
		},
		{
			Name: "conversions-are-reset-while-the-operator-runs", Rule: 6, File: pkg + "/conversion.go",
			Old:    "		case err == nil:\n			running = live\n",
			New:    "		case err == nil && s.ext == nil:\n			running = live\n",
			Killer: unit(pkg, "TestFinalizationBeginsWithAShortDelay"),
		},
		{
			Name: "operators-without-proof-count-as-stopped", Rule: 6, File: pkg + "/conversion.go",
			Old:    "		case deployment.OwnedBy(live, s.ext.UID):\n			return nil, err\n",
			New:    "		case deployment.OwnedBy(live, \"\"):\n			return nil, err\n",
			Killer: unit(pkg, "TestFinalizationStopsTheOperator"),
		},
		{
			Name: "deployments-of-others-are-orphaned-operators", Rule: 3, File: pkg + "/finalize.go",
			Old:    "live != nil && s.owner.Owns(live) && !deployment",
			New:    "live != nil && !deployment",
			Killer: unit(pkg, "TestFinalizationStopsTheOperator"),
		},
		{
			Name: "webhooks-outlive-their-operator", Rule: 6, File: pkg + "/finalize.go",
			Old:    "	if err := s.removeHooks(ctx, objs); err != nil {\n		return outcome{}, err\n	}\n",
			New:    "",
			Killer: unit(pkg, "TestFinalizationRemovesTheWebhooks"),
		},
		{
			Name: "orphaning-deletions-are-forgotten", Rule: 6, File: pkg + "/finalize.go",
			Old:    " || s.orphaning.Includes(s.ext) {",
			New:    " {",
			Killer: unit(pkg, "TestFinalizationRemembersAnOrphaningDeletion"),
		},
		{
			Name: "excesses-of-recreated-extensions-are-removed", Rule: 6, File: pkg + "/excess.go",
			Old:    "live.UID == s.ext.UID && live.DeletionTimestamp",
			New:    "live.DeletionTimestamp",
			Killer: unit(pkg, "TestPermissionsAreRemovedOnlyOfTheCurrentExtension"),
		},
		{
			Name: "excesses-of-changed-extensions-are-removed", Rule: 6, File: pkg + "/excess.go",
			Old:    " && live.Generation == s.ext.Generation && !scoped",
			New:    " && !scoped",
			Killer: unit(pkg, "TestPermissionsAreRemovedOnlyOfTheCurrentExtension"),
		},
		{
			Name: "kept-excesses-are-removed-from-an-outdated-cache", Rule: 6, File: pkg + "/excess.go",
			Old:    " && !scoped.KeepsExcess(live), err",
			New:    ", err",
			Killer: unit(pkg, "TestPermissionsAreRemovedOnlyOfTheCurrentExtension"),
		},
		{
			Name: "labels-wake-extensions", Rule: 3, File: pkg + "/wake.go",
			Old:    "owner.Proofs = r.Proofs; owner.Owns(obj) {",
			New:    "owner.Proofs = r.Proofs; owner.Owns(obj) || len(obj.GetOwnerReferences()) > 0 {",
			Killer: unit(pkg, "TestOnlyItsOwnObjectsWakeAnExtension"),
		},
		{
			Name: "changed-labels-of-objects-are-not-noticed", File: pkg + "/observe.go",
			Old:    " || !hasMetadata(live, desired)",
			New:    "",
			Killer: unit(pkg, "TestDriftOfOtherObjectsIsRepairedOrReported"),
		},
		{
			Name: "clustercatalogs-need-a-default-channel", File: "pkg/controller/clustercatalog/catalogs.go",
			Old:    ", AnyDefault: true",
			New:    "",
			Killer: unit("pkg/controller/clustercatalog", "TestServesAPackageWithoutADefaultChannel"),
		},
		{
			Name: "directories-need-a-default-channel", File: "cmd/kubectl-remit/internal/extension/catalogs.go",
			Old:    "{AnyDefault: true}.LoadDirectory",
			New:    "{}.LoadDirectory",
			Killer: unit("cmd/kubectl-remit/internal/extension", "TestReadsCatalogsWithoutADefaultChannel"),
		},
		{
			Name: "files-need-a-default-channel", File: "cmd/kubectl-remit/internal/extension/catalogs.go",
			Old:    "{AnyDefault: true}.FromFiles",
			New:    "{}.FromFiles",
			Killer: unit("cmd/kubectl-remit/internal/extension", "TestReadsCatalogsWithoutADefaultChannel"),
		},
		{
			Name: "images-need-a-default-channel", File: "cmd/kubectl-remit/internal/extension/catalogs.go",
			Old:    "fbc.Loader{AnyDefault: true}, func",
			New:    "fbc.Loader{}, func",
			Killer: unit("cmd/kubectl-remit/internal/extension", "TestReadsCatalogsWithoutADefaultChannel"),
		},
		{
			Name: "served-catalogs-need-a-default-channel", File: "cmd/kubectl-remit/internal/extension/cluster.go",
			Old:    "{AnyDefault: true}.FromFiles",
			New:    "{}.FromFiles",
			Killer: unit("cmd/kubectl-remit/internal/extension", "TestReadsCatalogsWithoutADefaultChannel"),
		},
	}
}
