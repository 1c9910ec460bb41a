package mutants

// budget returns the mutants of rule 8 for products of sizes (docs/adr/0066).
func budget() []Mutant {
	return []Mutant{
		{
			Name: "deployments-of-any-size", Rule: 8, File: "pkg/lib/budget/budget.go",
			Old:    "	if s.Text > MaxObjectBytes {",
			New:    "	if false {",
			Killer: unit("pkg/install/deployment", "TestProductsOfSizesAreRefused"),
		},
		{
			Name: "installs-of-any-size", Rule: 8, File: "pkg/lib/budget/budget.go",
			Old:    "	if b.drawn.Memory > b.max {",
			New:    "	if false {",
			Killer: unit("pkg/install/deployment", "TestProductsOfSizesAreRefused"),
		},
		{
			Name: "configs-of-any-length", Rule: 8, File: "pkg/install/deployment/size.go",
			Old:    "err := budget.CheckLists(config, MaxConfigEntries); err != nil {",
			New:    "err := budget.CheckLists(nil, MaxConfigEntries); err != nil {",
			Killer: unit("pkg/install/deployment", "TestProductsOfSizesAreRefused"),
		},
		{
			Name: "inline-configs-of-any-length", Rule: 8, File: "pkg/extension/render/config.go",
			Old:    "err := deployment.CheckConfig(out.Deployment); err != nil {",
			New:    "err := deployment.CheckConfig(nil); err != nil {",
			Killer: unit("pkg/extension/render", "TestParseConfigNamesTheWrongField"),
		},
		{
			Name: "containers-are-not-multiplied", Rule: 8, File: "pkg/install/deployment/size.go",
			Old:    "container.Times(len(specs[i].Spec.Template.Spec.Containers))",
			New:    "container",
			Killer: unit("pkg/install/deployment", "TestProductsOfSizesAreRefused"),
		},
		{
			Name: "any-number-of-deployments", Rule: 8, File: "pkg/install/deployment/size.go",
			Old:    "n > MaxDeployments {",
			New:    "false {",
			Killer: unit("pkg/install/deployment", "TestProductsOfSizesAreRefused"),
		},
		{
			Name: "groups-times-resources", Rule: 8, File: "pkg/install/webhook/size.go",
			Old:    "	if total > maxResources {",
			New:    "	if false {",
			Killer: unit("pkg/install/webhook", "TestResourcesTimesGroupsAreLimited"),
		},
		{
			Name: "webhook-lists-of-any-length", Rule: 8, File: "pkg/install/webhook/size.go",
			Old:    "budget.CheckLists(d, maxEntries); err != nil",
			New:    "budget.CheckLists(d, maxEntries); false",
			Killer: unit("pkg/install/webhook", "TestResourcesTimesGroupsAreLimited"),
		},
		{
			Name: "roles-times-namespaces", Rule: 8, File: "pkg/step/build/scopes.go",
			Old:    "b.Draw(namespaced.Times(namespaces - 1)); err != nil",
			New:    "b.Draw(namespaced); err != nil",
			Killer: unit("pkg/step/build", "TestRolesTimesTargetsAreLimited"),
		},
		{
			Name: "any-number-of-roles", Rule: 8, File: "pkg/step/build/scopes.go",
			Old:    "	if size.grants > MaxGrants {",
			New:    "	if false {",
			Killer: unit("pkg/step/build", "TestRolesTimesTargetsAreLimited"),
		},
		{
			Name: "channels-times-descriptions", Rule: 8, File: "pkg/packages/describe.go",
			Old:    "	for d.size > MaxManifestBytes && d.omitted < len(all) {",
			New:    "	for false {",
			Killer: unit("pkg/packages", "TestChannelsDoNotMultiplyDescriptions"),
		},
		{
			Name: "heads-are-read-again", Rule: 8, File: "pkg/packages/describe.go",
			Old:    "	if ok && (!seen.isBrief || channel != d.pkg.DefaultChannel) {",
			New:    "	if false && ok && (!seen.isBrief || channel != d.pkg.DefaultChannel) {",
			Killer: unit("pkg/packages", "TestChannelsDoNotMultiplyDescriptions"),
		},
		{
			Name: "manifests-of-any-cost", Rule: 8, File: "pkg/bundle/parse.go",
			Old:    "cost > maxManifestCost {",
			New:    "cost < 0 {",
			Killer: unit("pkg/bundle", "TestListsOfEmptyEntriesAreRefused"),
		},
		{
			Name: "bundles-of-any-memory", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "size > budget.MaxDecodedBytes {",
			New:    "size < 0 {",
			Killer: unit("pkg/bundle", "TestListsOfEmptyEntriesAreRefused"),
		},
		{
			Name: "long-versions-in-caches", Rule: 8, File: "pkg/controller/oversize.go",
			Old:    "Version: shortVersion(o.Spec.Version), Replaces",
			New:    "Version: o.Spec.Version, Replaces",
			Killer: unit("pkg/controller", "TestLargeClusterServiceVersionsAreNotKept"),
		},
		{
			Name: "large-metadata-in-caches", Rule: 8, File: "pkg/controller/trim.go",
			Old:    "	trimMetadata(obj)\n",
			New:    "",
			Killer: unit("pkg/controller", "TestLargeMetadataIsNotKept"),
		},
		{
			Name: "large-values-in-caches", Rule: 8, File: "pkg/controller/metadata.go",
			Old:    "len(value) <= maxMetadata && (",
			New:    "(",
			Killer: unit("pkg/controller", "TestLargeMetadataIsNotKept"),
		},
		{
			Name: "large-objects-in-caches", Rule: 8, File: "pkg/controller/oversize.go",
			Old:    "size > limit {",
			New:    "size > limit && size < 0 {",
			Killer: unit("pkg/controller", "TestLargeSubscriptionsTakeLittleMemory"),
		},
		{
			Name: "parts-of-subscriptions-are-installed", Rule: 8, File: "pkg/controller/csv/scope.go",
			Old:    "	if err := budget.Refused(s.subscription); err != nil {",
			New:    "	if err := budget.Refused(s.subscription); false {",
			Killer: unit("pkg/controller/csv", "TestPartsOfLargeObjectsAreNotInstalled"),
		},
		{
			Name: "parts-of-subscriptions-are-planned", Rule: 8, File: "pkg/controller/installplan/deployments.go",
			Old:    "		if err := budget.Refused(sub); err != nil {",
			New:    "		if err := budget.Refused(sub); false {",
			Killer: unit("pkg/controller/installplan", "TestAPlanWaitsForASubscriptionThatIsTooLarge"),
		},
		{
			Name: "parts-of-subscriptions-are-resolved", Rule: 8, File: "pkg/controller/subscription/advance.go",
			Old:    "		if err := budget.Refused(sub); err != nil {",
			New:    "		if err := budget.Refused(sub); false {",
			Killer: unit("pkg/controller/subscription", "TestASubscriptionThatIsTooLargeSaysSo"),
		},
		{
			Name: "all-deployments-in-one-turn", Rule: 8, File: "pkg/install/deployment/installer.go",
			Old:    "			if sent == MaxWritten {",
			New:    "			if false {",
			Killer: unit("pkg/controller/csv", "TestManyDeploymentsAreWrittenInTurns"),
		},
		{
			Name: "written-deployments-are-read-again", Rule: 8, File: "pkg/install/deployment/installer.go",
			Old:    "		if !now.Untouched {",
			New:    "		if now.Untouched = false; true {",
			Killer: unit("pkg/controller/csv", "TestManyDeploymentsAreWrittenInTurns"),
		},
		{
			Name: "all-orphans-in-one-turn", Rule: 8, File: "pkg/install/deployment/installer.go",
			Old:    "		if n == most {",
			New:    "		if false {",
			Killer: unit("pkg/controller/csv", "TestManyDeploymentsAreDeletedInTurns"),
		},
		{
			Name: "plans-try-all-deployments", Rule: 8, File: "pkg/controller/installplan/deployments.go",
			Old:    "range deployments[:min(len(deployments), deployment.MaxWritten-len(s.deployments))] {",
			New:    "range deployments {",
			Killer: unit("pkg/controller/installplan", "TestManyDeploymentsAreLeftToTheCSVController"),
		},
		{
			Name: "large-plans-all-at-once", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "	if at >= largeAtOnce-len(q.running) {",
			New:    "	if false {",
			Killer: unit("pkg/controller/installplan", "TestLargePlansWaitForEachOther"),
		},
		{
			Name: "large-plans-overtake", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "	if at >= largeAtOnce-len(q.running) {",
			New:    "	if len(q.running) >= largeAtOnce {",
			Killer: unit("pkg/controller/installplan", "TestLargePlansTakeTurnsInOrder"),
		},
		{
			Name: "packages-times-manifests", Rule: 8, File: "pkg/catalog/configmap/legacy.go",
			Old:    "	if err := l.budget.Draw(s); err != nil {",
			New:    "	if err := l.budget.Draw(s); false {",
			Killer: unit("pkg/catalog/configmap", "TestSizesInALegacyConfigMapDoNotMultiply"),
		},
		{
			Name: "crds-once-for-each-mention", Rule: 8, File: "pkg/catalog/configmap/legacy.go",
			Old:    "!ok || added[crd] {",
			New:    "!ok {",
			Killer: unit("pkg/catalog/configmap", "TestSizesInALegacyConfigMapDoNotMultiply"),
		},
		{
			Name: "apis-compared-in-pairs", Rule: 8, File: "pkg/catalog/manifest/describe.go",
			Old:    `a.Kind != "" && !seen[a] {`,
			New:    `a.Kind != "" && !slices.Contains(out, a) {`,
			Killer: unit("pkg/catalog/manifest", "TestManyAPIsTakeLinearTime"),
		},
		{
			Name: "manifests-count-once", Rule: 8, File: "pkg/controller/catalogsource/configmaps.go",
			Old:    "max(sizeOf(cm), sizeOfManifests(ctx, snap))",
			New:    "sizeOf(cm)",
			Killer: unit("pkg/controller/catalogsource", "TestManifestsOfAConfigMapCountForEachPackage"),
		},
	}
}
