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
	}
}
