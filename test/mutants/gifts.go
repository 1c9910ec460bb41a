package mutants

// gifts returns mutants for what others grant in their namespaces, for interceptions that nothing else bounds, and for sizes of
// ClusterServiceVersions.
func gifts() []Mutant {
	return []Mutant{
		{
			Name: "bindings-elsewhere-stop-operators", Rule: 8, File: "pkg/install/deployment/reach.go",
			Old:    "return ok && (!hasHash(b.GetName()) || r.IsRenderedFor(b, key.Name, owner))",
			New:    "return !ok || r.IsRenderedFor(b, key.Name, owner)",
			Killer: unit("pkg/install/deployment", "TestExistingBindingsOfANewServiceAccountCount"),
		},
		{
			Name: "what-installs-bind-elsewhere-is-free", Rule: 7, File: "pkg/install/deployment/reach.go",
			Old:    "return ok && (!hasHash(b.GetName()) || r.IsRenderedFor(b, key.Name, owner))",
			New:    "return ok && r.IsRenderedFor(b, key.Name+\"x\", owner)",
			Killer: unit("pkg/install/deployment", "TestExistingBindingsOfANewServiceAccountCount"),
		},
		{
			Name: "subjects-added-elsewhere-stop-operators", Rule: 8, File: "pkg/install/deployment/reach.go",
			Old:    "return ok && (!hasHash(b.GetName()) || r.IsRenderedFor(b, key.Name, owner))",
			New:    "_ = owner\n		return ok",
			Killer: unit("pkg/install/deployment", "TestExistingBindingsOfANewServiceAccountCount"),
		},
		{
			Name: "adopted-bindings-elsewhere-are-free", Rule: 7, File: "pkg/install/deployment/reach.go",
			Old:    "(!hasHash(b.GetName()) || r.IsRenderedFor(b, key.Name, owner))",
			New:    "r.IsRenderedFor(b, key.Name, owner)",
			Killer: unit("pkg/install/deployment", "TestExistingBindingsOfANewServiceAccountCount"),
		},
		{
			Name: "repeated-rules-hide-bindings", Rule: 7, File: "pkg/step/build/rbac.go",
			Old:    "json.Marshal(rbac.KeptRules(g.Rules))",
			New:    "json.Marshal(g.Rules)",
			Killer: unit("pkg/install/deployment", "TestRepeatedRulesDoNotHideABinding"),
		},
		{
			Name: "subjects-added-elsewhere-count-as-granted", Rule: 8, File: "pkg/install/deployment/identity.go",
			Old:    "if _, ok := by.installer(b); ok && reaches(b) {",
			New:    "if _, ok := by.installer(b); ok {\n				_ = reaches",
			Killer: unit("pkg/install/deployment", "TestWhatAnEarlierAccountGrantedCounts"),
		},
		{
			Name: "bindings-elsewhere-narrow-webhooks", Rule: 8, File: "pkg/preflight/identities.go",
			Old:    "i.reach(n.Namespace).Of(key))",
			New:    "func(rbac.Binding) bool { return true })",
			Killer: unit("pkg/preflight", "TestBindingsInOtherNamespacesCountOnlyIfInstallsCreatedThem"),
		},
		{
			Name: "webhooks-use-what-installs-bind-elsewhere", Rule: 7, File: "pkg/preflight/identities.go",
			Old:    "		if i.Proofs == nil {\n",
			New:    "		if namespace != \"\" {\n",
			Killer: unit("pkg/preflight", "TestBindingsInOtherNamespacesCountOnlyIfInstallsCreatedThem"),
		},
		{
			Name: "bindings-elsewhere-occupy-clusterroles", Rule: 8, File: "pkg/step/execute/awaited.go",
			Old:    `if role.GetKind() == "ClusterRole" && b.GetNamespace() != "" && b.GetNamespace() != r.Owner.Namespace {`,
			New:    "if false {",
			Killer: unit("pkg/step/execute", "TestBindingsToAnUnfilledRoleAreCollisions"),
		},
		{
			Name: "undecided-interceptions-are-installed", Rule: 1, File: "pkg/controller/clusterextension/preflight.go",
			Old:    "s.findings.Clear() && len(s.findings.Doubts()) == 0 && s.unusable == nil",
			New:    "s.findings.Clear() && s.unusable == nil",
			Killer: unit("pkg/controller/clusterextension", "TestAWebhookIsNotWrittenWhileItsPermissionsAreUnknown"),
		},
		{
			Name: "undecided-webhooks-protect-others", Rule: 1, File: "pkg/preflight/interceptions.go",
			Old:    "if err == nil && len(cuts) == 0 {",
			New:    "if err == nil {",
			Killer: unit("pkg/preflight", "TestAWebhookThatIsUndecidedDoesNotProtectOthers"),
		},
		{
			Name: "large-plans-are-served-in-order", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "cmp.Compare(q.served[a.Namespace], q.served[b.Namespace])",
			New:    "0",
			Killer: unit("pkg/controller/installplan", "TestNamespacesWithManyLargePlansAreServedInTurns"),
		},
		{
			Name: "objects-are-kept-after-they-are-written", Rule: 8, File: "pkg/controller/installplan/apply.go",
			Old:    "	state.Live = nil\n",
			New:    "",
			Killer: unit("pkg/controller/installplan", "TestWrittenObjectsAreNotKept"),
		},
		{
			Name: "results-are-kept-whole", Rule: 8, File: "pkg/controller/installplan/apply.go",
			Old:    "if live := done.Live; live != nil && !state.Step.IsCSV()",
			New:    "if live := done.Live; live != nil && state.Step.IsCRD()",
			Killer: unit("pkg/controller/installplan", "TestWrittenObjectsAreNotKept"),
		},
		{
			Name: "plans-write-any-token", Rule: 1, File: "pkg/controller/installplan/supporting.go",
			Old:    "		if kit.Is[*deployment.IdentityError](err) {\n			s.refuse(state.Step, err)\n",
			New:    "		if kit.Is[*deployment.IdentityError](err) {\n",
			Killer: unit("pkg/controller/installplan", "TestTokensOfServiceAccountsThatExceedTheAccountAreNotWritten"),
		},
		{
			Name: "extensions-write-any-token", Rule: 1, File: "pkg/controller/clusterextension/try.go",
			Old:    "if state.Problem, err = s.checkToken(ctx, *state); err != nil {",
			New:    "if _, err = s.checkToken(ctx, *state); err != nil {",
			Killer: row("52g"),
		},
		{
			Name: "new-serviceaccounts-inherit-tokens", Rule: 1, File: "pkg/controller/clusterextension/try.go",
			Old:    "		return deployment.NotYet(), true\n",
			New:    "		return time.Unix(0, 0), true\n",
			Killer: row("52g"),
		},
		{
			Name: "tokens-of-planned-serviceaccounts-are-free", Rule: 1, File: "pkg/controller/installplan/supporting.go",
			Old:    "			return deployment.NotYet(), true\n",
			New:    "			return time.Unix(0, 0), true\n",
			Killer: unit("pkg/controller/installplan", "TestTokensOfServiceAccountsThatExceedTheAccountAreNotWritten"),
		},
		{
			Name: "existing-secrets-get-any-token", Rule: 1, File: "pkg/install/deployment/identity.go",
			Old:    "by.Owner.Owns(live) && tokenOf(live) == key.Name {",
			New:    "by.Owner.Owns(live) {",
			Killer: unit("pkg/install/deployment", "TestTokensMustNotExceedTheAccount"),
		},
		{
			Name: "names-are-read-as-options", Rule: 8, File: "pkg/lib/apply/command.go",
			Old:    "if strings.HasPrefix(obj.GetName(), \"-\") {",
			New:    "if strings.HasPrefix(obj.GetName(), \"--\") {",
			Killer: unit("pkg/controller/csv", "TestNamesAreNotOptionsOfCommands"),
		},
		{
			Name: "statuses-write-commands", Rule: 8, File: "cmd/kubectl-remit/status/report.go",
			Old:    "if len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {",
			New:    "if len(validation.IsDNS1123Subdomain(ref.Name)) > 1000 {",
			Killer: unit("cmd/kubectl-remit/status", "TestReportsWhatIsBlocked"),
		},
		{
			Name: "namespaces-become-slow-before-others", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "		used = max(used, q.leastUsed())\n",
			New:    "		used = max(used, 0*q.leastUsed())\n",
			Killer: unit("pkg/controller/installplan", "TestNamespacesThatBecomeSlowDoNotPrecedeOthers"),
		},
		{
			Name: "turns-that-end-early-cost-nothing", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "		s.used += q.clock.Since(",
			New:    "		_ = q.clock.Since(",
			Killer: unit("pkg/controller/installplan", "TestSlowPlansWithShortTurnsDoNotPrecedeOthersForever"),
		},
		{
			Name: "served-namespaces-are-never-forgotten", Rule: 8, File: "pkg/controller/installplan/large.go",
			Old:    "if len(q.served) >= maxServed {",
			New:    "if false {",
			Killer: unit("pkg/controller/installplan", "TestNamespacesWithManyLargePlansAreServedInTurns"),
		},
		{
			Name: "zero-fields-cost-nothing", Rule: 8, File: "pkg/lib/budget/size.go",
			Old:    "if f.omits && field.IsZero() {",
			New:    "if field.IsZero() {",
			Killer: unit("pkg/lib/budget", "TestFieldsThatAreNotOmittedCount"),
		},
		{
			Name: "csvs-have-any-size-as-maps", Rule: 8, File: "pkg/controller/oversize.go",
			Old:    "size, limit, parts = of.Decoded(),",
			New:    "size, limit, parts = of.Memory,",
			Killer: unit("pkg/controller", "TestClusterServiceVersionsThatAreLargeAsMapsAreNotKept"),
		},
		{
			Name: "patches-compare-specs", Rule: 8, File: "pkg/lib/status/status.go",
			Old:    "		spec.SetZero()\n",
			New:    "		_ = spec\n",
			Killer: unit("pkg/lib/status", "TestAPatchIsComputedWithoutTheSpec"),
		},
		{
			Name: "copies-share-the-cache", Rule: 8, File: "pkg/controller/copiedcsv/content.go",
			Old:    "*c.spec.DeepCopy(), // the response",
			New:    "*c.spec, // the response",
			Killer: unit("pkg/controller/copiedcsv", "TestCopiesAreNotRenderedAsMaps"),
		},
		{
			Name: "deployments-cost-what-their-types-take", Rule: 8, File: "pkg/install/deployment/size.go",
			Old:    "s.Memory = s.Decoded() // they",
			New:    "_ = s.Decoded() // they",
			Killer: unit("pkg/install/deployment", "TestDeploymentsCountAsMaps"),
		},
		{
			Name: "existing-deployments-cost-nothing", Rule: 8, File: "pkg/controller/installplan/deployments.go",
			Old:    "live, answer := s.executor.Live(ctx, d)",
			New:    "live, answer := apply.Live(ctx, s.executor.Account, d)",
			Killer: unit("pkg/controller/installplan", "TestPlansWithLargeExistingDeploymentsWaitForLargeOnes"),
		},
		{
			Name: "interceptions-are-asked-about-last", Rule: 8, File: "pkg/preflight/review.go",
			Old:    "		case a.Unenforced:\n			return -1\n",
			New:    "		case a.Unenforced:\n			return 1\n",
			Killer: unit("pkg/preflight", "TestInterceptionsAreAskedAboutFirst"),
		},
	}
}
