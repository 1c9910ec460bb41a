package mutants

// catalogs returns the mutants of the reader of bundles, of registries and of what a catalog may repeat.
func catalogs() []Mutant {
	return []Mutant{
		{
			Name: "any-number-of-documents", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "len(p.from) > MaxManifests {",
			New:    "len(p.from) < 0 {",
			Killer: unit("pkg/bundle", "TestLimitsApplyToTheDocumentsOfAManifest"),
		},
		{
			Name: "files-expand-together", Rule: 8, File: "pkg/catalog/fbc/manifests.go",
			Old:    "r.size.Add(int64(len(object))) > catalog.MaxContentBytes",
			New:    "r.size.Add(int64(len(object))) < 0",
			Killer: unit("pkg/catalog/fbc", "TestLimitsTheDocumentsOfABundle"),
		},
		{
			Name: "any-number-of-objects-in-files", Rule: 8, File: "pkg/catalog/fbc/manifests.go",
			Old:    "r.count.Add(1) > catalog.MaxManifests",
			New:    "r.count.Add(1) < 0",
			Killer: unit("pkg/catalog/fbc", "TestLimitsTheDocumentsOfABundle"),
		},
		{
			Name: "aliases-after-an-end-marker", Rule: 8, File: "pkg/catalog/objects.go",
			Old:    "if err := checkAliases(document, aliases); err != nil {",
			New:    "if err := checkAliases(nil, aliases); err != nil {",
			Killer: unit("pkg/catalog", "TestReadObjectsLimitsTheAliasesOfEveryDocument"),
		},
		{
			Name: "any-number-of-warnings", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "len(p.bundle.Warnings) < catalog.MaxContentWarnings {",
			New:    "len(p.bundle.Warnings) >= 0 {",
			Killer: unit("pkg/bundle", "TestLimitsTheNumberOfWarnings"),
		},
		{
			Name: "the-controller-runs-tags", Rule: 4, File: "pkg/controller/catalogsource/servers.go",
			Old:    "	if !s.byTag || s.watch(ctx) != nil {",
			New:    "	if s.watch(ctx) != nil {",
			Killer: unit("pkg/controller/catalogsource", "TestRunsAnUnreadImageByTagUntilItsDigestIsKnown"),
		},
		{
			Name: "registries-without-a-digest", Rule: 8, File: "pkg/catalog/server/objects.go",
			Old:    "	if !r.ByTag && !isPinned(r.Image) {",
			New:    "	if false {",
			Killer: unit("pkg/catalog/server", "TestRefusesAnImageReferencedByTag"),
		},
		{
			Name: "a-tag-replaces-a-digest", Rule: 8, File: "pkg/controller/catalogsource/servers.go",
			Old:    "func(p *corev1.Pod) bool { return !server.RunsByTag(p) })",
			New:    "func(p *corev1.Pod) bool { return server.RunsByTag(p) && p == nil })",
			Killer: unit("pkg/controller/catalogsource", "TestRunsAnUnreadImageByTagUntilItsDigestIsKnown"),
		},
		{
			Name: "registries-without-an-address-are-read", File: "pkg/controller/catalogsource/connections.go",
			Old:    "own.IsUnreachable = e.conn == nil; own.IsUnreachable {",
			New:    "own.IsUnreachable = e == nil; own.IsUnreachable {",
			Killer: unit("pkg/controller/catalogsource", "TestContentOfARegistryWithoutAnAddressIsNotRead"),
		},
		{
			Name: "an-outage-unpins-an-image", Rule: 8, File: "pkg/controller/catalogsource/images.go",
			Old:    `view.unread = view.good == nil && view.registry == "" && kit.Is[unopenedError](err)`,
			New:    `view.unread = err != nil`,
			Killer: unit("pkg/controller/catalogsource", "TestAnImageIsUnreadUntilItsManifestIsRead"),
		},
		{
			Name: "names-of-any-length-in-images", Rule: 8, File: "pkg/image/unpack.go",
			Old:    "max(len(header.Name), len(header.Linkname)) > MaxNameBytes {",
			New:    "len(header.Name) < 0 {",
			Killer: unit("pkg/image", "TestRefusesLongNames"),
		},
		{
			Name: "names-of-removed-files-without-bound", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "e.hiddenBytes > MaxHiddenBytes {",
			New:    "e.hiddenBytes < 0 {",
			Killer: unit("pkg/catalog/layer", "TestLimitsTheNamesOfRemovedFiles"),
		},
		{
			Name: "a-canceled-image-is-read-on", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "		if err := ctx.Err(); err != nil {\n			return err\n		}\n		return e.entry(",
			New:    "		return e.entry(",
			Killer: unit("pkg/catalog/layer", "TestACanceledReadEndsBetweenEntries"),
		},
		{
			Name: "directories-take-no-space", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "e.take(int64(made) * directoryBytes)",
			New:    "e.take(0)",
			Killer: unit("pkg/catalog/layer", "TestCountsDirectories"),
		},
		{
			Name: "directories-of-any-depth", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "depth > MaxDepth {",
			New:    "depth < 0 {",
			Killer: unit("pkg/catalog/layer", "TestLimitsDirectories"),
		},
		{
			Name: "any-number-of-directories", Rule: 8, File: "pkg/catalog/layer/extract.go",
			Old:    "len(e.dirs) > MaxDirectories:",
			New:    "len(e.dirs) < 0:",
			Killer: unit("pkg/catalog/layer", "TestLimitsDirectories"),
		},
		{
			Name: "a-leftover-directory-closes-the-store", Rule: 8, File: "pkg/catalog/disk/store.go",
			Old:    "	_ = os.RemoveAll(filepath.Join(s.dir, dirWork))\n",
			New:    "	if err := os.RemoveAll(filepath.Join(s.dir, dirWork)); err != nil {\n		return nil, err\n	}\n",
			Killer: unit("pkg/catalog/disk", "TestOpensBesideFilesThatCannotBeRemoved"),
		},
		{
			Name: "older-apis-are-compared-in-pairs", Rule: 8, File: "pkg/catalog/grpc/properties.go",
			Old:    "		if !stated[p.Type] {",
			New:    "		seen := stated[p.Type]\n		for _, s := range in.GetProperties() {\n			seen = seen || s.GetType() == p.Type\n		}\n		if !seen {",
			Killer: unit("pkg/catalog/grpc", "TestPropertiesAndOlderAPIsTakeLinearTime"),
		},
		{
			Name: "ignore-files-of-any-size", Rule: 8, File: "pkg/catalog/fbc/ignore.go",
			Old:    "f.all.bytes > maxIgnoreBytes",
			New:    "f.all.bytes < 0",
			Killer: unit("pkg/catalog/fbc", "TestLimitsIgnoreFiles"),
		},
		{
			Name: "any-number-of-ignore-patterns", Rule: 8, File: "pkg/catalog/fbc/ignore.go",
			Old:    "f.all.patterns > maxIgnorePatterns",
			New:    "f.all.patterns < 0",
			Killer: unit("pkg/catalog/fbc", "TestLimitsIgnoreFiles"),
		},
		{
			Name: "ignore-files-at-any-depth", Rule: 8, File: "pkg/catalog/fbc/ignore.go",
			Old:    `strings.Count(name, "/") > maxIgnoreDepth`,
			New:    `strings.Count(name, "/") < 0`,
			Killer: unit("pkg/catalog/fbc", "TestLimitsIgnoreFiles"),
		},
		{
			Name: "ignored-files-outlive-the-context", Rule: 8, File: "pkg/catalog/fbc/loader.go",
			Old:    "		if ctx.Err() != nil {\n			return context.Cause(ctx)",
			New:    "		if false {\n			return context.Cause(ctx)",
			Killer: unit("pkg/catalog/fbc", "TestFilesThatAreIgnoredDoNotOutliveTheContext"),
		},
		{
			Name: "ignore-files-outlive-the-context", Rule: 8, File: "pkg/catalog/fbc/ignore.go",
			Old:    "	if i.ctx.Err() != nil {",
			New:    "	if false {",
			Killer: unit("pkg/catalog/fbc", "TestFilesThatAreIgnoredDoNotOutliveTheContext"),
		},
		{
			Name: "any-number-of-directives", Rule: 8, File: "pkg/catalog/aliases.go",
			Old:    "	if n > maxDirectives {",
			New:    "	if n < 0 {",
			Killer: unit("pkg/catalog", "TestOddYAMLTakesLinearTime"),
		},
		{
			Name: "directives-of-empty-documents", Rule: 8, File: "pkg/catalog/aliases.go",
			Old:    "	if err := checkDirectives(data); err != nil {",
			New:    "	if err := checkDirectives(nil); err != nil {",
			Killer: unit("pkg/catalog", "TestOddYAMLTakesLinearTime"),
		},
		{
			Name: "directives-of-objects", Rule: 8, File: "pkg/catalog/aliases.go",
			Old:    "	if err := checkDirectives(doc); err != nil {",
			New:    "	if err := checkDirectives(nil); err != nil {",
			Killer: unit("pkg/catalog", "TestOddYAMLTakesLinearTime"),
		},
		{
			Name: "directives-after-other-line-breaks", Rule: 8, File: "pkg/catalog/aliases.go",
			Old:    `\n\r\x85\xa8\xa9\xbf`,
			New:    `\n`,
			Killer: unit("pkg/catalog", "TestOddYAMLTakesLinearTime"),
		},
		{
			Name: "directives-in-utf-16", Rule: 8, File: "pkg/catalog/aliases.go",
			Old:    "		if wide || i == 0",
			New:    "		if wide && n < 0 || i == 0",
			Killer: unit("pkg/catalog", "TestOddYAMLTakesLinearTime"),
		},
		{
			Name: "secrets-are-read-at-any-rate", Rule: 8, File: "pkg/controller/catalogsource/pullsecrets.go",
			Old:    "	if namespace == p.GlobalNamespace {",
			New:    "	if namespace != p.GlobalNamespace {",
			Killer: unit("pkg/controller/catalogsource", "TestPollsReadSecretsAtALimitedRate"),
		},
		{
			Name: "paces-are-kept", Rule: 8, File: "pkg/controller/catalogsource/pullsecrets.go",
			Old:    "return unused.Tokens() >= readBurst",
			New:    "return unused == nil",
			Killer: unit("pkg/controller/catalogsource", "TestPacesThatAreNotInUseAreForgotten"),
		},
		{
			Name: "any-number-of-catalogs-in-configmaps", Rule: 8, File: "pkg/controller/catalogsource/observe.go",
			Old:    "	if err := r.follows.take(key); err != nil {",
			New:    "	if err := r.follows.take(key); err != nil && key.Name == \"\" {",
			Killer: unit("pkg/controller/catalogsource", "TestACatalogInAConfigMapWaitsForAPlace"),
		},
		{
			Name: "places-of-configmaps-are-kept", Rule: 8, File: "pkg/controller/catalogsource/follow.go",
			Old:    "	f.places.leave(key)\n",
			New:    "",
			Killer: unit("pkg/controller/catalogsource", "TestLimitsCatalogsInConfigMapsOfANamespace"),
		},
	}
}
