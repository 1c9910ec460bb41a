package mutants

// enforcer returns the mutants of rule 1: the API server enforces permissions, and everything missing is reported before the
// first write.
func enforcer() []Mutant {
	return []Mutant{
		{
			Name: "cert-manager-writes-what-the-identity-must-not", Rule: 1, File: "pkg/extension/assess/assess.go",
			Old:    "range r.Hooks.IssuedSecrets() {",
			New:    "range r.Hooks.IssuedSecrets()[:0] {",
			Killer: unit("pkg/controller/clusterextension", "TestCertManagerIssuesTheCertificates"),
		},
		{
			Name: "no-live-check-before-writes", Rule: 1, File: "pkg/controller/installplan/apply.go",
			Old:    "group, err := r.Default.Lookup(r.Live).OperatorGroup(ctx, s.plan.Namespace)",
			New:    "group, err := r.Default.Lookup(r.Client).OperatorGroup(ctx, s.plan.Namespace)",
			Killer: unit("pkg/controller/installplan", "TestSendsNothingAsAReplacedAccount"),
		},
		{
			Name: "same-account-ignored", Rule: 1, File: "pkg/controller/installplan/apply.go",
			Old: `	if account != s.account {
		return fmt.Errorf("the account of namespace %q changed to`,
			New: `	if false {
		return fmt.Errorf("the account of namespace %q changed to`,
			Killer: unit("pkg/controller/installplan", "TestSendsNothingAsAReplacedAccount"),
		},
		{
			Name: "account-may-change-while-its-client-is-created", Rule: 1, File: "pkg/controller/installplan/apply.go",
			Old: `	if account != s.account {
		return outcome{},`,
			New: `	if false {
		return outcome{},`,
			Killer: unit("pkg/controller/installplan", "TestSendsNothingAsAReplacedAccount"),
		},
		{
			Name: "preflight-reports-everything-as-covered", Rule: 1, File: "pkg/preflight/report.go",
			Old: `		report.add(n, current)
`,
			New:    "",
			Killer: unit("pkg/preflight", "TestApplyingTheGrantMakesTheReportEmpty"),
		},
		{
			Name: "too-large-rules-pass", Rule: 1, File: "pkg/preflight/report.go",
			Old:    "		if rbac.TooLarge(n.Rules) {",
			New:    "		if false {",
			Killer: unit("pkg/preflight", "TestRefusesRulesWithTooManyCombinations"),
		},
		{
			Name: "urls-are-not-missing", Rule: 1, File: "pkg/rbac/missing.go",
			Old:    "if !onResources(r, yield) || !onURLs(r, yield) {",
			New:    "if !onResources(r, yield) {",
			Killer: unit("pkg/rbac", "TestMissingMatchesTheEscalationCheckOfTheAPIServer"),
		},
		{
			Name: "names-are-not-checked", Rule: 1, File: "pkg/rbac/missing.go",
			Old: `	if len(r.ResourceNames) > 0 {
		names =`,
			New: `	if false {
		names =`,
			Killer: unit("pkg/rbac", "TestMissingMatchesTheEscalationCheckOfTheAPIServer"),
		},
		{
			Name: "large-bindings-are-not-found", Rule: 1, File: "pkg/rbac/index.go",
			Old:    "largeKey(namespace), subjectKey(namespace, rbacv1.UserKind, s.User))",
			New:    "subjectKey(namespace, rbacv1.UserKind, s.User))",
			Killer: unit("pkg/rbac", "TestTheIndexMatchesListing"),
		},
		{
			Name: "groups-of-a-service-account-forgotten", Rule: 1, File: "pkg/rbac/effective.go",
			Old:    "return slices.Contains(s.Groups, b.Name)",
			New:    "return false",
			Killer: unit("pkg/rbac", "TestEffectiveRulesFollowBindings"),
		},
		{
			Name: "scope-forcing-dropped", Rule: 1, File: "pkg/install/webhook/bound.go",
			Old:    "case p.scope == Namespaced || reachesAdministrators(p.rule) || !holds(p.demand()...):",
			New:    "case p.scope == Namespaced:",
			Killer: unit("pkg/install/webhook", "TestABoundedGroupInterceptsClusterScopedObjectsOnlyIfPermitted"),
		},
		{
			Name: "webhooks-of-extensions-are-unbounded", Rule: 1, File: "pkg/extension/render/render.go",
			Old:    "webhook.Group{Bounded: true, Targets: targets",
			New:    "webhook.Group{Bounded: false, Targets: targets",
			Killer: unit("pkg/extension/render", "TestWebhooksAndAPIs"),
		},
		{
			Name: "bindings-are-intercepted", Rule: 1, File: "pkg/install/webhook/refused.go",
			Old:    `		{in: groups("rbac.authorization.k8s.io", `,
			New:    `		{in: groups(`,
			Killer: unit("pkg/install/webhook", "TestABoundedGroupDoesNotInterceptRefusedResources"),
		},
		{
			Name: "webhooks-read-what-the-account-may-not", Rule: 1, File: "pkg/install/webhook/bound.go",
			Old:    `		write.Verbs = append(write.Verbs, "get")`,
			New:    `		write.Verbs = append(write.Verbs, "create")`,
			Killer: unit("pkg/install/webhook", "TestInterceptingRequiresPermissionToReadAndWrite"),
		},
		{
			Name: "webhooks-run-pods-as-any-account", Rule: 1, File: "pkg/install/webhook/bound.go",
			Old:    "out := Demand{Identities: runsAsAnyServiceAccount(d)}",
			New:    "out := Demand{Identities: runsAsAnyServiceAccount(d) && false}",
			Killer: unit("pkg/install/webhook", "TestInterceptingPodTemplatesRequiresIdentities"),
		},
		{
			Name: "webhooks-reach-all-namespaces", Rule: 1, File: "pkg/install/webhook/group.go",
			Old: `	case g.Bounded && all:
`,
			New: `	case false:
`,
			Killer: unit("pkg/install/webhook", "TestNamespaceSelectorOfAWebhook"),
		},
		{
			Name: "deployments-run-as-the-account", Rule: 1, File: "pkg/install/deployment/identity.go",
			Old:    "if !by.Account.IsSynthetic() && key == by.Account.Account.Key() {",
			New:    "if false {",
			Killer: unit("pkg/install/deployment", "TestIdentitiesMustNotExceedTheAccount"),
		},
		{
			Name: "deployments-run-as-any-account", Rule: 1, File: "pkg/install/deployment/identity.go",
			Old:    `if why != "" {`,
			New:    `if why != "" && false {`,
			Killer: unit("pkg/install/deployment", "TestIdentitiesMustNotExceedTheAccount"),
		},
		{
			Name: "declared-service-accounts-are-trusted", Rule: 1, File: "pkg/install/deployment/identity.go",
			Old:    "		if at, made := by.Made(key.Name); made {",
			New:    "		if at, made := by.Made(key.Name); made || !made {",
			Killer: unit("pkg/install/deployment", "TestIdentitiesMustNotExceedTheAccount"),
		},
		{
			Name: "excess-does-not-block", Rule: 1, File: "pkg/install/warrant/warrant.go",
			Old:    "return errors.Join(f.Ineligible, f.GroupDeleted, f.Excess)",
			New:    "return errors.Join(f.Ineligible, f.GroupDeleted)",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
		{
			Name: "refused-identities-do-not-block", Rule: 1, File: "pkg/install/warrant/warrant.go",
			Old:    "errors.Join(f.prepare(), f.Prepared, f.Refused)",
			New:    "errors.Join(f.prepare(), f.Prepared)",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
		{
			Name: "namespaces-are-written-by-webhooks", Rule: 1, File: "pkg/install/webhook/refused.go",
			Old:    `if why == "" && mutates && writtenByAdministrators(`,
			New:    "if false && writtenByAdministrators(",
			Killer: unit("pkg/install/webhook", "TestABoundedGroupDoesNotInterceptRefusedResources"),
		},
		{
			Name: "requests-for-tokens-are-intercepted", Rule: 1, File: "pkg/install/webhook/refused.go",
			Old: `		{in: core, resources: []string{"serviceaccounts/token"}, why: whyToken},
`,
			New:    "",
			Killer: unit("pkg/install/webhook", "TestABoundedGroupDoesNotInterceptRefusedResources"),
		},
		{
			Name: "secrets-confer-nothing", Rule: 1, File: "pkg/install/webhook/refused.go",
			Old:    `{"pods", "podtemplates", "replicationcontrollers", "secrets"}`,
			New:    `{"pods", "podtemplates", "replicationcontrollers"}`,
			Killer: unit("pkg/install/webhook", "TestInterceptingPodTemplatesRequiresIdentities"),
		},
		{
			Name: "objects-behind-subresources-are-shown", Rule: 1, File: "pkg/install/webhook/bound.go",
			Old:    "append(read.Resources, base)",
			New:    "append(read.Resources, resource+base[:0])",
			Killer: unit("pkg/install/webhook", "TestInterceptingRequiresPermissionToReadAndWrite"),
		},
		{
			Name: "own-status-wakes-a-blocked-plan", Rule: 1, File: "pkg/lib/status/own.go",
			Old:    "		return !hasNewStatus(e) ||",
			New:    "		return true || !hasNewStatus(e) ||",
			Killer: unit("pkg/lib/status", "TestOwnStatusesAreDropped"),
		},
		{
			Name: "own-texts-are-events", Rule: 1, File: "pkg/lib/status/own.go",
			Old:    "		return !hasNewTexts(e) ||",
			New:    "		return true || !hasNewTexts(e) ||",
			Killer: unit("pkg/lib/status", "TestTextsAreDropped"),
		},
		{
			Name: "own-texts-wake-a-version", Rule: 1, File: "pkg/controller/csv/wake.go",
			Old:    "r.orphaning.Predicate(), r.replaced.DropTexts()",
			New:    "r.orphaning.Predicate()",
			Killer: unit("pkg/controller/csv", "TestATextThatAlwaysDiffersWakesNothing"),
		},
		{
			Name: "own-texts-wake-a-subscription", Rule: 1, File: "pkg/controller/subscription/setup.go",
			Old:    ", own, builder.WithPredicates(r.replaced.DropTexts()))",
			New:    ", own)",
			Killer: unit("pkg/controller/subscription", "TestATextThatAlwaysDiffersWakesNothing"),
		},
		{
			Name: "texts-of-subscriptions-wake-versions", Rule: 1, File: "pkg/controller/csv/wake.go",
			Old:    "handler.EnqueueRequestsFromMapFunc(r.subscribed), texts)",
			New:    "handler.EnqueueRequestsFromMapFunc(r.subscribed))",
			Killer: unit("pkg/controller/csv", "TestTextsOfOthersWakeNothing"),
		},
		{
			Name: "texts-of-older-versions-wake-newer-ones", Rule: 1, File: "pkg/controller/csv/wake.go",
			Old:    "handler.EnqueueRequestsFromMapFunc(r.neighbors), texts)",
			New:    "handler.EnqueueRequestsFromMapFunc(r.neighbors))",
			Killer: unit("pkg/controller/csv", "TestTextsOfOthersWakeNothing"),
		},
		{
			Name: "dropped-texts-end-the-reconciles", File: "pkg/controller/csv/reconciler.go",
			Old:    "ctrl.Result{RequeueAfter: r.replaced.Delay(csv)}",
			New:    "ctrl.Result{}",
			Killer: unit("pkg/controller/csv", "TestAnOutdatedVersionWithAnotherTextIsReadAgain"),
		},
		{
			Name: "a-dry-run-without-a-result-is-final", File: "pkg/controller/csv/phases.go",
			Old:    "f.CallRefused == nil && isUndecided(f.Probe)",
			New:    "f.CallRefused == nil && isUndecided(nil)",
			Killer: unit("pkg/controller/csv", "TestNextOutOfFailed"),
		},
		{
			Name: "a-dry-run-without-a-result-is-a-refusal", Rule: 1, File: "pkg/controller/csv/phases.go",
			Old:    "(undecided || !f.WasRefused",
			New:    "(!f.WasRefused",
			Killer: unit("pkg/controller/csv", "TestNextOutOfFailed"),
		},
		{
			Name: "a-grant-hides-what-is-still-refused", File: "cmd/kubectl-remit/grant/grant.go",
			Old:    "cmp.Or(o.create(ctx, now.Objects), now.Refused)",
			New:    "cmp.Or(o.create(ctx, now.Objects), nil)",
			Killer: unit("cmd/kubectl-remit/grant", "TestObjectsThatAreStillRefusedAreAnError"),
		},
		{
			Name: "a-failure-hides-what-was-done", File: "cmd/kubectl-remit/internal/ensure/ensure.go",
			Old:    "			return done, fmt.Errorf(",
			New:    "			return nil, fmt.Errorf(",
			Killer: unit("cmd/kubectl-remit/internal/ensure", "TestAFailureNamesWhatWasDone"),
		},
		{
			Name: "refusals-are-retried-at-once", Rule: 1, File: "pkg/controller/installplan/retry.go",
			Old:    "min(max(is.delay*retryFactor, minRetryDelay), maxRetryDelay)",
			New:    "min(minRetryDelay, maxRetryDelay)",
			Killer: unit("pkg/controller/installplan", "TestRetriesARefusalWithGrowingDelays"),
		},
		{
			Name: "a-blocked-plan-is-saved-again", Rule: 1, File: "pkg/controller/installplan/conditions.go",
			Old:    "if was.Status != c.Status || was.LastTransitionTime == nil {",
			New:    "if true {",
			Killer: unit("pkg/controller/installplan", "TestARestoredConditionKeepsItsTimes"),
		},
		{
			Name: "refusals-name-other-namespaces", Rule: 1, File: "pkg/install/deployment/identity.go",
			Old: `		if scope.Namespace != key.Namespace {
			outside = true
			continue
		}`,
			New:    "",
			Killer: unit("pkg/install/deployment", "TestExistingBindingsOfANewServiceAccountCount"),
		},
		{
			Name: "extensions-run-as-any-serviceaccount", Rule: 1, File: "pkg/controller/clusterextension/try.go",
			Old: `	if err := s.checkIdentities(ctx); err != nil {
		return outcome{}, err
	}
`,
			New:    "",
			Killer: row("229"),
		},
		{
			Name: "webhooks-of-extensions-cover-remit", Rule: 1, File: "pkg/controller/clusterextension/render.go",
			Old:    "Certificates: certificates, Spared: s.Spared,",
			New:    "Certificates: certificates,",
			Killer: row("227d"),
		},
	}
}
