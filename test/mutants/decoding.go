package mutants

// decoding returns the mutants of what keeps an object that cannot be decoded from affecting others.
func decoding() []Mutant {
	const pkg = "pkg/lib/decoding"
	return []Mutant{
		{
			Name: "caches-contain-any-number-of-apis", Rule: 8, File: "pkg/controller/trim.go",
			Old:    "return atMost(bundle.MaxOwned+1, list) }",
			New:    "return atMost(2*bundle.MaxOwned+len(list), list) }",
			Killer: unit("pkg/controller", "TestCachesContainNoLongListsOfAPIs"),
		},
		{
			Name: "a-version-owns-any-number-of-served-apis", Rule: 8, File: "pkg/install/provided/api.go",
			Old:    "range served[:min(len(served), bundle.MaxOwned)] {",
			New:    "range served {",
			Killer: unit("pkg/install/provided", "TestOmitsAPIsOfAVersionWithTooMany"),
		},
		{
			Name: "selectors-of-any-length", Rule: 8, File: "pkg/packages/server/manifests.go",
			Old:    "	if s.size() > maxSelected {",
			New:    "	if s.size() < 0 {",
			Killer: unit("pkg/packages/server", "TestServesThePackagesOfANamespaceAndTheGlobalOnes"),
		},
		{
			Name: "five-namespaces-fill-the-package-server", Rule: 8, File: "pkg/packages/store/store.go",
			Old:    "	case namespace.within(use{leastNamespaceDisk, leastNamespaceIndex}):",
			New:    "	case false:",
			Killer: unit("pkg/packages/store", "TestLimitsWhatNamespacesUse"),
		},
		{
			Name: "one-namespace-unpacks-with-all-slots", Rule: 8, File: "pkg/controller/kit/bundleimage/slots.go",
			Old:    "	return maxForOther\n",
			New:    "	return maxUnpacks\n",
			Killer: unit("pkg/controller/kit/bundleimage", "TestNamespacesTakeTurnsUnpackingTheBundlesOfGlobalCatalogs"),
		},
		{
			Name: "namespaces-unpack-one-after-the-other", Rule: 8, File: "pkg/controller/kit/bundleimage/slots.go",
			Old:    "		l.order = append(slices.Delete(l.order, at, at+1), by)\n",
			New:    "",
			Killer: unit("pkg/controller/kit/bundleimage", "TestManyNamespacesShareTheSlotsInTurns"),
		},
		{
			Name: "bundles-are-requested-by-their-catalog", Rule: 8, File: "pkg/controller/kit/bundleimage/images.go",
			Old:    "cmp.Or(catalog.Requester(ctx), r.key.Namespace)",
			New:    "cmp.Or(\"\", r.key.Namespace)",
			Killer: unit("pkg/controller/kit/bundleimage", "TestImagesAreRequestedByTheNamespacesThatReadThem"),
		},
		{
			Name: "bundle-images-are-unpacked-without-a-turn", Rule: 8, File: "pkg/controller/kit/bundleimage/images.go",
			Old:    "	ctx, end, err := b.Turn(ctx, catalog.Namespace)",
			New:    "	end, err := func() {}, error(nil)",
			Killer: unit("pkg/controller/kit/bundleimage", "TestAddsTheContentOfBundleImages"),
		},
		{
			Name: "controllers-decode-whole-lists", Rule: 8, File: "pkg/controller/manager.go",
			Old:    "	config.Wrap(decoding.Tolerant(scheme))\n",
			New:    "	_ = decoding.Tolerant(scheme)\n",
			Killer: unit("pkg/controller", "TestCachesKeepWhatCannotBeDecodedApart"),
		},
		{
			Name: "items-are-not-repaired", Rule: 8, File: pkg + "/reader.go",
			Old:    "out.write([]byte(separator), out.repairer.repair(raw))",
			New:    "out.write([]byte(separator), raw)",
			Killer: unit(pkg, "TestAListContainsWhatCanBeDecoded"),
		},
		{
			Name: "events-are-not-repaired", Rule: 8, File: pkg + "/reader.go",
			Old:    "out.repairer.repair(e.Object), []byte",
			New:    "e.Object, []byte",
			Killer: unit(pkg, "TestAWatchContinuesAfterWhatCannotBeDecoded"),
		},
		{
			Name: "quantities-take-hours", Rule: 8, File: pkg + "/repair.go",
			Old:    "budget.CheckQuantities(raw) == nil && d.decode",
			New:    "budget.CheckQuantities(nil) == nil && d.decode",
			Killer: unit(pkg, "TestAnUpdateStrategyDoesNotHideAnotherField"),
		},
		{
			Name: "spaces-hide-quantities", Rule: 8, File: "pkg/lib/budget/quantity.go",
			Old:    "const spaces = `[\\x{85}\\p{Z}]*`",
			New:    "const spaces = ``",
			Killer: unit("pkg/lib/budget", "TestQuantitiesThatTakeLongToParseAreRefused"),
		},
		{
			Name: "quantities-that-take-hours-to-write", Rule: 8, File: "pkg/lib/budget/quantity.go",
			Old:    "|[0-9.]{19,}[eE]",
			New:    "|[0-9.]{190,}[eE]",
			Killer: unit("pkg/lib/budget", "TestQuantitiesThatTakeLongToParseAreRefused"),
		},
		{
			Name: "bundles-with-quantities-that-take-hours", Rule: 8, File: "pkg/bundle/parse.go",
			Old:    "	if err := checkTexts(obj); err != nil {",
			New:    "	if err := checkTexts(obj); false && err != nil {",
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "an-update-strategy-hides-other-fields", Rule: 8, File: pkg + "/repair.go",
			Old:    "	return maps.EqualFunc(was, is, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })",
			New:    "	return len(maps.Clone(was)) == len(is) || bytes.Equal(before, after)",
			Killer: unit(pkg, "TestAnUpdateStrategyDoesNotHideAnotherField"),
		},
		{
			Name: "versions-of-any-length", Rule: 8, File: "pkg/catalog/versions/versions.go",
			Old:    "	if len(text) <= length {",
			New:    "	if len(text) <= length || true {",
			Killer: unit("pkg/catalog/versions", "TestLongTextIsNotParsed"),
		},
		{
			Name: "catalogs-keep-versions-of-any-length", Rule: 8, File: "pkg/catalog/validate.go",
			Old:    ", versions.Check(b.Version)); err",
			New:    ", versions.Check(\"\")); err",
			Killer: unit("pkg/catalog", "TestVersionsAndRangesHaveALimit"),
		},
		{
			Name: "connections-are-used-once", Rule: 8, File: pkg + "/reader.go",
			Old:    "			r.drain()\n",
			New:    "			_ = r.drain\n",
			Killer: unit(pkg, "TestAResponseIsReadToItsEnd"),
		},
		{
			Name: "decoders-may-panic", Rule: 8, File: pkg + "/repair.go",
			Old:    "failure := recover(); failure != nil {",
			New:    "failure := any(nil); failure != nil {",
			Killer: unit(pkg, "TestEveryStoredObjectCanBeDecoded"),
		},
		{
			Name: "parts-of-specs-look-complete", Rule: 8, File: pkg + "/repair.go",
			Old:    "	if incomplete {",
			New:    "	if incomplete && false {",
			Killer: unit(pkg, "TestAnObjectIsReadWithoutWhatCannotBeDecoded"),
		},
		{
			Name: "ready-before-caches-are-read", Rule: 8, File: "pkg/controller/ports.go",
			Old:    "	if !informers.WaitForCacheSync(ctx) {",
			New:    "	if false && !informers.WaitForCacheSync(ctx) {",
			Killer: unit("pkg/controller", "TestAProgramIsReadyOnceItsCachesAreRead"),
		},
		{
			Name: "groups-without-their-targets", Rule: 2, File: "pkg/lib/scoped/lookup.go",
			Old:    "	if err := budget.Refused(og); err != nil {",
			New:    "	if err := budget.Refused(og); false {",
			Killer: unit("pkg/lib/scoped", "TestAPartOfAnOperatorGroupHasNoAccount"),
		},
		{
			Name: "unreadable-conditions-allow-upgrades", Rule: 8, File: "pkg/install/condition/evaluate.go",
			Old:    "	if err := budget.Refused(c); err != nil {",
			New:    "	if err := budget.Refused(c); false {",
			Killer: unit("pkg/install/condition", "TestUnreadableConditionsPreventUpgrades"),
		},
		{
			Name: "equal-rules-are-kept", Rule: 8, File: "pkg/rbac/kept.go",
			Old:    "		rules = unique(rules, key)",
			New:    "		_ = unique(rules, key)",
			Killer: unit("pkg/rbac", "TestEqualRulesAreKeptOnce"),
		},
		{
			Name: "roles-of-any-size-are-kept", Rule: 8, File: "pkg/controller/oversize.go",
			Old:    "	keepOnce(obj)\n",
			New:    "",
			Killer: unit("pkg/controller", "TestRolesOfManyRulesTakeLittleMemory"),
		},
		{
			Name: "unknown-rules-grant-nothing", Rule: 8, File: "pkg/rbac/missing.go",
			Old:    "	if isUnknown(&r) {",
			New:    "	if false {",
			Killer: unit("pkg/rbac", "TestRolesThatAreNotKeptAreUnknown"),
		},
		{
			Name: "unknown-rules-have-few-values", Rule: 8, File: "pkg/rbac/gather.go",
			Old:    "		if isUnknown(r) {",
			New:    "		if false {",
			Killer: unit("pkg/rbac", "TestRolesThatAreNotKeptAreUnknown"),
		},
	}
}
