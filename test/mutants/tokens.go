package mutants

// tokens returns the mutants of rule 5: Remit uses the identity of an account only where a user enrolled it.
func tokens() []Mutant {
	return []Mutant{
		{
			Name: "uid-pin-dropped", Rule: 5, File: "pkg/lib/scoped/token.go",
			Old: `			ObjectMeta: metav1.ObjectMeta{UID: s.account.UID},
`,
			New: `			ObjectMeta: metav1.ObjectMeta{},
`,
			Killer: unit("pkg/lib/scoped", "TestARecreatedAccountIsADifferentOne"),
		},
		{
			Name: "token-is-never-refreshed", Rule: 5, File: "pkg/lib/scoped/token.go",
			Old:    "	refreshAt = 0.8",
			New:    "	refreshAt = 80",
			Killer: unit("pkg/lib/scoped", "TestRefreshesATokenAfter80PercentOfItsLifetime"),
		},
		{
			Name: "refused-token-is-kept", Rule: 5, File: "pkg/lib/scoped/token.go",
			Old: `	t.source.drop(token)
`,
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestRetriesWithANewTokenAfterA401"),
		},
		{
			Name: "forgotten-token-is-kept", Rule: 5, File: "pkg/lib/scoped/clients.go",
			Old: `		delete(c.entries, key)
`,
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestForgetDropsTheToken"),
		},
		{
			Name: "credentials-of-the-controller-are-sent", Rule: 5, File: "pkg/lib/scoped/clients.go",
			Old:    "config := rest.AnonymousClientConfig(c.options.Base)",
			New:    "config := rest.CopyConfig(c.options.Base)",
			Killer: unit("pkg/lib/scoped", "TestDoesNotSendTheControllersCredentialsAsTheAccount"),
		},
		{
			Name: "enrollment-of-one-is-of-all", Rule: 5, File: "pkg/lib/scoped/enrollment.go",
			Old:    "ResourceNames: []string{account.Name}, ",
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestEnrollmentAppliesToOneAccountOnly"),
		},
		{
			Name: "author-policy-audits", Rule: 5, File: "manifests/policy/author.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "anyone-writes-clusterserviceversions", Rule: 5, File: "manifests/policy/csv-author.yaml",
			Old:    ".name(variables.name).check('impersonate').allowed()",
			New:    ".name(variables.name).check('impersonate').allowed() || request.resource.resource == 'clusterserviceversions'",
			Killer: row("123"),
		},
		{
			Name: "clusterserviceversions-before-a-group-exists", Rule: 5, File: "manifests/policy/csv-author.yaml",
			Old:    "parameterNotFoundAction: Deny",
			New:    "parameterNotFoundAction: Allow",
			Killer: row("123a"),
		},
	}
}
