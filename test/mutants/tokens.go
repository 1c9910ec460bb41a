package mutants

// tokens returns the mutants of rule 5: Remit uses the identity of an account only if a user has enrolled it.
func tokens() []Mutant {
	return []Mutant{
		{
			Name: "uid-pin-dropped", Rule: 5, File: "pkg/lib/scoped/token.go",
			Old: `			ObjectMeta: metav1.ObjectMeta{UID: s.account.UID},
`,
			New: `			ObjectMeta: metav1.ObjectMeta{},
`,
			Killer: unit("pkg/lib/scoped", "TestARecreatedAccountIsADifferentAccount"),
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
			Old: `	delete(c.entries, identity.Username())
`,
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestForgetDropsTheToken"),
		},
		{
			Name: "context-chooses-the-account", Rule: 5, File: "pkg/lib/scoped/sender.go",
			Old: `	return context.WithValue(ctx, senderKey{}, c.sender)
`,
			New: `	if ctx.Value(senderKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, senderKey{}, c.sender)
`,
			Killer: unit("pkg/lib/scoped", "TestAClientSendsItsRequestsAsItsOwnAccountOnly"),
		},
		{
			Name: "credentials-of-the-controller-are-sent", Rule: 5, File: "pkg/lib/scoped/clients.go",
			Old:    "config := rest.AnonymousClientConfig(c.options.Base)",
			New:    "config := rest.CopyConfig(c.options.Base)",
			Killer: unit("pkg/lib/scoped", "TestDoesNotSendTheControllersCredentialsAsTheAccount"),
		},
		{
			Name: "enrollment-of-one-account-applies-to-all", Rule: 5, File: "pkg/lib/scoped/enrollment.go",
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
			Name: "callers-choose-impersonation-headers", Rule: 5, File: "pkg/lib/scoped/impersonate.go",
			Old: `			delete(out.Header, name)
`,
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestReplacesAllImpersonationHeaders"),
		},
		{
			Name: "any-user-is-impersonated", Rule: 5, File: "pkg/lib/scoped/impersonate.go",
			Old: `	if err := identity.validateExtension(); err != nil {
		return nil, err
	}
`,
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestRefusesIdentitiesThatItMustNotImpersonate"),
		},
		{
			Name: "impersonates-as-the-underlying-user", Rule: 5, File: "pkg/lib/scoped/impersonate.go",
			Old:    `	if config.Impersonate.UserName != "" {`,
			New:    "	if false {",
			Killer: unit("pkg/lib/scoped", "TestRefusesIdentitiesThatItMustNotImpersonate"),
		},
		{
			Name: "enrollment-of-one-user-applies-to-all", Rule: 5, File: "pkg/lib/scoped/extension.go",
			Old:    "ResourceNames: []string{identity.Username()}, ",
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestAnEnrollmentAllowsNoOtherUser"),
		},
		{
			Name: "enrollment-for-one-group-applies-to-all", Rule: 5, File: "pkg/lib/scoped/extension.go",
			Old:    "ResourceNames: []string{names.GroupExtensions}, ",
			New:    "",
			Killer: unit("pkg/lib/scoped", "TestAnEnrollmentAllowsNoOtherUser"),
		},
		{
			Name: "constrained-enrollment-allows-every-verb", Rule: 5, File: "pkg/lib/scoped/extension.go",
			Old:    `return []string{"create", `,
			New:    `return []string{"update", "deletecollection", "create", `,
			Killer: unit("pkg/lib/scoped", "TestAConstrainedEnrollmentAllowsOnlyRemitsVerbs"),
		},
		{
			Name: "extension-author-policy-audits", Rule: 5, File: "manifests/extensions/policy/author.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests/policy", "TestEveryExtensionPolicyDenies"),
		},
		{
			Name: "anyone-recreates-clusterextensions", Rule: 5, File: "manifests/extensions/policy/author.yaml",
			Old:    ".name(variables.synthetic).check('impersonate').allowed()",
			New:    ".name(variables.synthetic).check('impersonate').allowed() || request.operation == 'CREATE' && object.metadata.name != 'probe'",
			Killer: unit("test/author", "TestARecreatedExtensionIsCheckedAgain"),
		},
		{
			Name: "anyone-changes-the-identity-of-clusterextensions", Rule: 5, File: "manifests/extensions/policy/author.yaml",
			Old:    "request.operation == 'CREATE' || object.metadata.generation",
			New:    "request.operation == 'CREATE' || object.?spec.?serviceAccount == oldObject.?spec.?serviceAccount && object.metadata.generation",
			Killer: unit("test/author", "TestChecksEveryChangeOfAnExtensionsIdentity"),
		},
		{
			Name: "clusterextensions-move-to-other-accounts", Rule: 5, File: "manifests/extensions/policy/author.yaml",
			Old:    "object.metadata.generation != oldObject.metadata.generation",
			New:    "object.metadata.generation != oldObject.metadata.generation && object.?spec.?namespace == oldObject.?spec.?namespace",
			Killer: unit("test/author", "TestAnExtensionsNamespaceIsPartOfItsIdentity"),
		},
		{
			Name: "install-lets-authors-name-any-account", Rule: 5, File: "manifests/extensions/policy/author.yaml",
			Old: "namespace(variables.home).name(variables.account).check('impersonate').allowed()",
			New: "namespace(variables.home).name(variables.account).check('impersonate').allowed()\n" +
				"      || authorizer.group('olm.operatorframework.io').resource('clusterextensions').name(object.metadata.name).check('install').allowed()",
			Killer: unit("test/author", "TestAnExtensionNamesOnlyAccountsThatItsAuthorMayImpersonate"),
		},
		{
			Name: "install-on-one-extension-applies-to-all", Rule: 5, File: "manifests/extensions/policy/author.yaml",
			Old:    "resource('clusterextensions').name(object.metadata.name).check('install')",
			New:    "resource('clusterextensions').name('other').check('install')",
			Killer: unit("test/author", "TestOnlyPermittedAuthorsInstallAnExtensionAsItsOwnUser"),
		},
		{
			Name: "anyone-is-bound-to-grants-for-clusterextensions", Rule: 5, File: "manifests/extensions/policy/grants.yaml",
			Old:    "s.kind == 'User' && s.name == 'olm:clusterextension:' + variables.extension",
			New:    "s.kind == 'User' && s.name == 'olm:clusterextension:' + variables.extension || variables.extension != 'probe'",
			Killer: unit("test/author", "TestAGrantForAnExtensionBindsOnlyTheSubjectInItsName"),
		},
		{
			Name: "anyone-writes-clusterserviceversions", Rule: 5, File: "manifests/policy/csv-author.yaml",
			Old:    ".name(variables.name).check('impersonate').allowed()",
			New:    ".name(variables.name).check('impersonate').allowed() || request.resource.resource == 'clusterserviceversions'",
			Killer: row("123"),
		},
		{
			Name: "clusterserviceversions-before-a-group-exists", Rule: 5, File: "manifests/policy/csv-author.yaml",
			Old:    "resources: [clusterserviceversions]\n  paramRef:\n    selector: {}\n    parameterNotFoundAction: Deny",
			New:    "resources: [clusterserviceversions]\n  paramRef:\n    selector: {}\n    parameterNotFoundAction: Allow",
			Killer: row("123a"),
		},
		{
			Name: "extensions-need-no-enrollment", Rule: 5, File: "pkg/controller/clusterextension/identity.go",
			Old:    "	if err == nil && !enrolled {",
			New:    "	if err == nil && !enrolled && !exists {",
			Killer: row("220a"),
		},
		{
			Name: "an-extension-without-its-account-uses-its-user", Rule: 5, File: "pkg/controller/clusterextension/identity.go",
			Old: `	identity.Account.UID = sa.UID
`,
			New: `	identity.Account.UID = sa.UID
	if err == nil && !exists {
		return scoped.Identity{Extension: s.ext.Name}, true, nil
	}
`,
			Killer: row("222b"),
		},
	}
}
