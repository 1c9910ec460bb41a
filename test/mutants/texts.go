package mutants

// texts returns the mutants of what limits the cost of strangers' text: manifests, requirements, and what registries send.
func texts() []Mutant {
	return []Mutant{
		{
			Name: "validation-takes-any-memory", Rule: 8, File: "pkg/step/existing/limit_linux.go",
			Old:    "	return syscall.Setrlimit(rlimitData, &syscall.Rlimit{Cur: maxMemory, Max: maxMemory})",
			New:    "	_ = rlimitData\n	return nil",
			Killer: unit("pkg/step/existing", "TestTheMemoryOfTheValidationProcessIsLimited"),
		},
		{
			Name: "validation-takes-any-time", Rule: 8, File: "pkg/step/existing/limit_linux.go",
			Old:    "	exceeded()\n",
			New:    "	_ = exceeded\n",
			Killer: unit("pkg/step/existing", "TestValidationIsLimited"),
		},
		{
			Name: "costly-objects-are-valid", Rule: 8, File: "pkg/step/existing/read.go",
			Old:    "		found = verdict{First: []string{tooCostly}}\n",
			New:    "		_ = tooCostly\n",
			Killer: unit("pkg/step/existing", "TestValidationEndsAtACostlyObject"),
		},
		{
			Name: "validations-take-no-turns", Rule: 8, File: "pkg/step/existing/process.go",
			Old:    "turns.Turns{Slots: 1, Share: 1}",
			New:    "turns.Turns{Slots: 9, Share: 9}",
			Killer: unit("pkg/step/existing", "TestNamespacesTakeTurnsWithTheProcess"),
		},
		{
			Name: "validations-wait-for-all-of-a-namespace", Rule: 8, File: "pkg/step/existing/process.go",
			Old:    "running.Join(ctx, namespace)",
			New:    `running.Join(ctx, namespace[:0])`,
			Killer: unit("pkg/step/existing", "TestNamespacesTakeTurnsWithTheProcess"),
		},
		{
			Name: "pages-wait-for-a-validation", Rule: 8, File: "pkg/step/existing/read.go",
			Old:    "	if s.process == nil {\n		return 1\n",
			New:    "	if s.process == nil {\n		return PageSize\n",
			Killer: unit("pkg/step/existing", "TestNamespacesTakeTurnsWithTheProcess"),
		},
		{
			Name: "validations-take-the-memory-of-the-program", Rule: 8, File: "pkg/step/existing/process.go",
			Old:    "512 << 20, 384 << 20",
			New:    "640 << 20, 384 << 20",
			Killer: unit("pkg/step/existing", "TestTheProcessFitsBesideItsProgram"),
		},
		{
			Name: "the-last-served-is-first", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "t.served[w.Namespace] < t.served[best.Namespace]",
			New:    "t.served[w.Namespace] > t.served[best.Namespace]",
			Killer: unit("pkg/lib/turns", "TestANamespaceThatWasServedLessRecentlyComesFirst"),
		},
		{
			Name: "turns-end-when-they-like", Rule: 8, File: "pkg/lib/turns/turns.go",
			Old:    "			h.Stop(t.Late)\n",
			New:    "			_ = t.Late\n",
			Killer: unit("pkg/lib/turns", "TestATurnThatDoesNotYieldIsStopped"),
		},
		{
			Name: "newer-plans-of-any-number-are-decoded", Rule: 8, File: "pkg/controller/installplan/run.go",
			Old:    "		if !s.content.MayShareSubscription(text) {",
			New:    "		if !s.content.MayShareSubscription(text) && false {",
			Killer: unit("pkg/controller/installplan", "TestNewerPlansOfOtherSubscriptionsAreNotDecoded"),
		},
		{
			Name: "plans-with-many-pins-share-no-subscription", Rule: 3, File: "pkg/resolver/plan.go",
			Old:    "	return len(p.Pins) > maxSought || ",
			New:    "	return len(p.Pins) <= maxSought && ",
			Killer: unit("pkg/resolver", "TestPlansOfOtherSubscriptionsAreRecognizedByTheirText"),
		},
		{
			Name: "needs-of-versions-in-place-are-forgotten", Rule: 8, File: "pkg/resolver/solve.go",
			Old:    "	c.recordNeedsInPlace(d.roots)\n",
			New:    "",
			Killer: unit("pkg/resolver", "TestEveryChangeIsNeededByASubscription"),
		},
		{
			Name: "requirements-of-any-length-are-kept", Rule: 8, File: "pkg/resolver/facts.go",
			Old:    " && bytesOf(needs) <= maxKeptBytes {",
			New:    " && bytesOf(needs) >= 0 {",
			Killer: unit("pkg/resolver", "TestParsedRangesAreNotKept"),
		},
		{
			Name: "lists-are-versions", Rule: 8, File: "pkg/resolver/cel.go",
			Old:    `		return "", false`,
			New:    `		return "1.0.0", true`,
			Killer: unit("pkg/resolver", "TestOnlyScalarsAreVersions"),
		},
		{
			Name: "yaml-of-registries-of-any-cost", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "	if cost > maxTextCost {",
			New:    "	if cost > maxTextCost<<10 {",
			Killer: unit("pkg/bundle", "TestCostlyYAMLIsNotDecoded"),
		},
		{
			Name: "bundles-of-any-cost", Rule: 8, File: "pkg/catalog/fbc/manifests.go",
			Old:    "cost > maxBundleCost {",
			New:    "cost > maxBundleCost<<10 {",
			Killer: unit("pkg/catalog/fbc", "TestLimitsTheDocumentsOfABundle"),
		},
		{
			Name: "all-repeated-keys-are-described", Rule: 8, File: "pkg/catalog/objects.go",
			Old:    "	for _, text := range repeated[:shown] {",
			New:    "	for _, text := range repeated {\n		_ = regexp.MustCompile(repeatedText.String())",
			Killer: unit("pkg/catalog", "TestRepeatedKeysCostLittleMoreThanOthers"),
		},
		{
			Name: "requirements-repeat-their-property", Rule: 8, File: "pkg/resolver/requirement.go",
			Old:    "hash := string(value.Sum(nil))",
			New:    "hash := string(value.Sum(p.Value))",
			Killer: unit("pkg/resolver", "TestRequirementsShareTheValueOfTheirProperty"),
		},
		{
			Name: "requirements-repeat-their-message", Rule: 8, File: "pkg/resolver/requirement.go",
			Old:    "if _, known := lines[all[i].message]; !known {",
			New:    "if all[i].message = strings.Clone(all[i].message); true {",
			Killer: unit("pkg/resolver", "TestRequirementsShareTheValueOfTheirProperty"),
		},
		{
			Name: "too-many-requirements-are-built", Rule: 8, File: "pkg/resolver/requirement.go",
			Old:    "if len(c.All.Constraints) > MaxRequirements {",
			New:    "if len(c.All.Constraints) < 0 {",
			Killer: unit("pkg/resolver", "TestTooManyRequirementsAreNotBuilt"),
		},
		{
			Name: "conflicts-compare-pairs", Rule: 8, File: "pkg/install/provided/conflict.go",
			Old:    "	return a.resources[api.Resource()] && (",
			New:    "	_, resources := namesOf(a.csv); return resources[api.Resource()] && (",
			Killer: unit("pkg/install/provided", "TestManyAPIsTakeLinearTime"),
		},
		{
			Name: "versions-own-any-number-of-apis", Rule: 8, File: "pkg/install/provided/api.go",
			Old:    "defined[:min(len(defined), bundle.MaxOwned)]",
			New:    "defined[:max(len(defined), bundle.MaxOwned-bundle.MaxOwned)]",
			Killer: unit("pkg/install/provided", "TestOmitsAPIsOfAVersionWithTooMany"),
		},
		{
			Name: "another-connection-ends-the-pause", Rule: 8, File: "pkg/controller/catalogsource/connections.go",
			Old:    "		e.resume = time.Now().Add(min(e.pause, longestRest))\n",
			New:    "		_ = longestRest\n",
			Killer: unit("pkg/controller/catalogsource", "TestAnotherConnectionDoesNotEndThePause"),
		},
		{
			Name: "errors-of-registries-are-long", Rule: 8, File: "pkg/catalog/grpc/client.go",
			Old:    "grpc.WithMaxHeaderListSize(maxHeaderBytes)",
			New:    "grpc.WithMaxHeaderListSize(256 * maxHeaderBytes)",
			Killer: unit("pkg/catalog/grpc", "TestErrorsOfARegistryAreShort"),
		},
		{
			Name: "small-documents-wait-for-large-ones", Rule: 8, File: "pkg/catalog/decoding.go",
			Old:    "	if cost <= smallDocument {",
			New:    "	if cost < 0 {",
			Killer: unit("pkg/catalog", "TestSmallDocumentsDoNotWaitForLargeOnes"),
		},
		{
			Name: "registries-send-without-limit", Rule: 8, File: "pkg/catalog/grpc/meter.go",
			Old:    "	if m.calls == 0 {\n",
			New:    "	if m.calls < 0 {\n",
			Killer: unit("pkg/catalog/grpc", "TestMeter"),
		},
		{
			Name: "calls-receive-without-limit", Rule: 8, File: "pkg/catalog/grpc/meter.go",
			Old:    "m.excess > m.calls*excessBytes {",
			New:    "m.excess > 99*excessBytes {",
			Killer: unit("pkg/catalog/grpc", "TestMeter"),
		},
		{
			Name: "connections-are-not-metered", Rule: 8, File: "pkg/catalog/grpc/meter.go",
			Old:    "&meteredConn{conn, c.meter}",
			New:    "conn",
			Killer: unit("pkg/catalog/grpc", "TestARegistryThatSendsOnlyPingsIsDisconnected"),
		},
		{
			Name: "images-are-compared-in-pairs", Rule: 8, File: "pkg/packages/parse.go",
			Old:    "		if !seen[image.Image] {",
			New:    "		if !seen[image.Image] && !slices.Contains(out.RelatedImages, image.Image) {",
			Killer: unit("pkg/packages", "TestManyImagesTakeLinearTime"),
		},
		{
			Name: "lists-of-pods-are-compared-in-pairs", Rule: 8, File: "pkg/install/deployment/size.go",
			Old:    "		if have, ok := at[k]; ok {",
			New:    "		have, ok := at[k]\n		for j := range list {\n			ok = ok || key(&list[j]) == k\n		}\n		if ok {",
			Killer: unit("pkg/install/deployment", "TestLongListsTakeLinearTime"),
		},
	}
}
