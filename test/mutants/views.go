package mutants

// views returns mutants for what tenants learn about namespaces of others, for records of accounts, for objects whose labels name
// another namespace, and for what only looks like an image or like plain text.
func views() []Mutant {
	return []Mutant{
		{
			Name: "reports-list-permissions-of-other-namespaces", Rule: 1, File: "pkg/preflight/identities.go",
			Old:    "case !may.rules:",
			New:    "case !may.rules && false:",
			Killer: unit("pkg/preflight", "TestTheReportShowsOfOtherNamespacesWhatTheAccountMayList"),
		},
		{
			Name: "reports-name-service-accounts-of-other-namespaces", Rule: 1, File: "pkg/preflight/identities.go",
			Old:    "if !may.names {",
			New:    "if !may.names && false {",
			Killer: unit("pkg/preflight", "TestTheReportShowsOfOtherNamespacesWhatTheAccountMayList"),
		},
		{
			Name: "roles-are-shown-to-those-who-list-bindings", Rule: 1, File: "pkg/preflight/identities.go",
			Old:    `"roles", "rolebindings")`,
			New:    `"rolebindings")`,
			Killer: unit("pkg/preflight", "TestTheReportShowsOfOtherNamespacesWhatTheAccountMayList"),
		},
		{
			Name: "undetermined-rules-are-not-hidden", Rule: 1, File: "pkg/preflight/document.go",
			Old:    "explain(visible(r.Unknown))",
			New:    "explain(r.Unknown)",
			Killer: unit("pkg/preflight", "TestTheReportShowsOfOtherNamespacesWhatTheAccountMayList"),
		},
		{
			Name: "rules-of-other-authorizers-are-not-hidden", Rule: 1, File: "pkg/preflight/document.go",
			Old:    "explain(visible(r.Allowed))",
			New:    "explain(r.Allowed)",
			Killer: unit("pkg/preflight", "TestTheReportShowsOfOtherNamespacesWhatTheAccountMayList"),
		},
		{
			Name: "bindings-of-others-are-an-excess", Rule: 7, File: "pkg/controller/operatorgroup/excess.go",
			Old:    "return s.isGranted(obj)",
			New:    "return bindsOnly(obj, own)",
			Killer: unit("pkg/controller/operatorgroup", "TestBindingsOfOthersAreNoExcess"),
		},
		{
			Name: "long-package-names-hide-bindings-elsewhere", Rule: 1, File: "pkg/controller/operatorgroup/excess.go",
			Old:    "return s.isGranted(obj)",
			New:    "return false",
			Killer: unit("pkg/controller/operatorgroup", "TestBindingsOfOthersAreNoExcess"),
		},
		{
			Name: "long-package-names-hide-bindings-of-users", Rule: 1, File: "pkg/controller/operatorgroup/excess.go",
			Old:    "return true // for any subjects",
			New:    "return bindsOnly(obj, own)",
			Killer: unit("pkg/controller/operatorgroup", "TestPermissionsOfALongPackageNameAreRemoved"),
		},
		{
			Name: "cluster-bindings-of-users-are-an-excess", Rule: 7, File: "pkg/controller/operatorgroup/excess.go",
			Old:    "return bindsOnly(obj, own) || callsOnly(obj, own)",
			New:    "return true",
			Killer: unit("pkg/controller/operatorgroup", "TestBindingsOfOthersAreNoExcess"),
		},
		{
			Name: "a-name-decides-which-extension-left-an-object", Rule: 7, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "if !isMarkOf(s.ext.Name, mark) || s.Proofs",
			New:    "if mark == \"\" || s.Proofs",
			Killer: unit("pkg/controller/clusterextension", "TestTheMarkDecidesWhichExtensionLeftAnObject"),
		},
		{
			Name: "a-name-wakes-another-extension", Rule: 8, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "		if isMarkOf(name, mark) {\n			out = append(out, reconcile",
			New:    "		if true {\n			out = append(out, reconcile",
			Killer: unit("pkg/controller/clusterextension", "TestTheMarkDecidesWhichExtensionLeftAnObject"),
		},
		{
			Name: "extensions-with-long-names-leave-nothing", Rule: 1, File: "pkg/controller/clusterextension/leftover.go",
			Old:    "(len(name) == maxLabel || lineage.IsMark(mark))",
			New:    "lineage.IsMark(mark)",
			Killer: unit("pkg/controller/clusterextension", "TestTheMarkDecidesWhichExtensionLeftAnObject"),
		},
		{
			Name: "one-namespace-stops-the-adoption-of-others", Rule: 8, File: "cmd/kubectl-remit/adopt/command.go",
			Old:    "		if ctx.Err() != nil {\n",
			New:    "		if ctx.Err() != nil || len(errs) > 0 {\n",
			Killer: unit("cmd/kubectl-remit/adopt", "TestAFailureAffectsOnlyItsNamespace"),
		},
		{
			Name: "one-namespace-stops-that-others-are-given-back", Rule: 8, File: "cmd/kubectl-remit/adopt/undo.go",
			Old:    "		if ctx.Err() != nil {\n",
			New:    "		if ctx.Err() != nil || len(errs) > 0 {\n",
			Killer: unit("cmd/kubectl-remit/adopt", "TestAFailureAffectsOnlyItsNamespace"),
		},
		{
			Name: "one-selector-stops-the-adoption-of-others", Rule: 8, File: "cmd/kubectl-remit/adopt/world.go",
			Old:    "	return ctx.Err()\n",
			New:    "	for _, err := range w.untargeted {\n		if err != nil {\n			return err\n		}\n	}\n	return ctx.Err()\n",
			Killer: unit("cmd/kubectl-remit/adopt", "TestUnknownTargetsAffectOnlyTheirNamespace"),
		},
		{
			Name: "ignorable-characters-are-plain", Rule: 8, File: "pkg/lib/message/escape.go",
			Old:    "unicode.Other_Default_Ignorable_Code_Point, ",
			New:    "",
			Killer: unit("pkg/lib/message", "TestInvisibleCharactersAreNotPlain"),
		},
		{
			Name: "variation-selectors-are-plain", Rule: 8, File: "pkg/lib/message/escape.go",
			Old:    ", unicode.Variation_Selector)",
			New:    ")",
			Killer: unit("pkg/lib/message", "TestInvisibleCharactersAreNotPlain"),
		},
		{
			Name: "a-blank-of-braille-is-plain", Rule: 8, File: "pkg/lib/message/escape.go",
			Old:    "|| r == brailleBlank",
			New:    "|| r == brailleBlank && false",
			Killer: unit("pkg/lib/message", "TestInvisibleCharactersAreNotPlain"),
		},
		{
			Name: "catalogs-name-directories-of-the-user", Rule: 8, File: "cmd/kubectl-remit/internal/extension/install.go",
			Old:    ".LoadImage(ctx,",
			New:    ".Load(ctx,",
			Killer: unit("cmd/kubectl-remit/internal/extension", "TestTheImageOfABundleIsNoPath"),
		},
	}
}
