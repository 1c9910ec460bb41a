package mutants

// noAccount returns the mutants of rule 2: without an account, nothing is installed.
func noAccount() []Mutant {
	return []Mutant{
		{
			Name: "default-account-applies-everywhere", Rule: 2, File: "pkg/lib/scoped/lookup.go",
			Old:    `return d.Account.Name != "" && (len(d.Namespaces) == 0 || slices.Contains(d.Namespaces, namespace))`,
			New:    `return d.Account.Name != ""`,
			Killer: unit("pkg/lib/scoped", "TestAccount"),
		},
		{
			Name: "no-account-is-the-default-service-account", Rule: 2, File: "pkg/lib/scoped/lookup.go",
			Old: `	return types.NamespacedName{}, false
}`,
			New: `	return types.NamespacedName{Namespace: og.Namespace, Name: "default"}, false
}`,
			Killer: unit("pkg/lib/scoped", "TestAccount"),
		},
		{
			Name: "default-account-overrides-the-named-one", Rule: 2, File: "pkg/lib/scoped/lookup.go",
			Old:    `case og.Spec.ServiceAccountName != "":`,
			New:    `case og.Spec.ServiceAccountName != "" && !d.appliesTo(og.Namespace):`,
			Killer: unit("pkg/lib/scoped", "TestAccount"),
		},
		{
			Name: "first-of-several-operatorgroups", Rule: 2, File: "pkg/lib/scoped/lookup.go",
			Old: `	case 1:
		return &list.Items[0], nil`,
			New: `	case 1, 2:
		return &list.Items[0], nil`,
			Killer: unit("pkg/lib/scoped", "TestAccount"),
		},
		{
			Name: "names-of-accounts-unchecked", Rule: 2, File: "pkg/lib/scoped/lookup.go",
			Old:    "	if errs := validation.ValidateServiceAccountName(key.Name, false); len(errs) > 0 {",
			New:    "	if errs := validation.ValidateServiceAccountName(key.Name, false); false {",
			Killer: unit("pkg/lib/scoped", "TestAccount"),
		},
		{
			Name: "accounts-of-flags-unchecked", Rule: 2, File: "pkg/lib/scoped/lookup.go",
			Old:    "	if errs := validation.ValidateNamespaceName(namespace, false); len(errs) > 0 {",
			New:    "	if errs := validation.ValidateNamespaceName(namespace, false); false {",
			Killer: unit("pkg/lib/scoped", "TestParseKey"),
		},
		{
			Name: "registries-of-bounded-tenants-run", Rule: 2, File: "pkg/controller/catalogsource/tenantservers.go",
			Old:    "	case !account.Default:",
			New:    "	case false:",
			Killer: unit("pkg/controller/catalogsource", "TestRunsATenantsRegistryOnlyIfTheOperatorGroupUsesTheDefaultAccount"),
		},
		{
			Name: "selector-ignored", Rule: 2, File: "pkg/lib/scoped/targets.go",
			Old:    "return og.Spec.Selector == nil || isEmptySelector(og.Spec.Selector)",
			New:    "return true",
			Killer: unit("pkg/lib/scoped", "TestTargets"),
		},
		{
			Name: "selectors-see-all-namespaces", Rule: 2, File: "pkg/lib/scoped/targets.go",
			Old: "	targets, err := filter.Gettable(ctx, account, matching)",
			New: `	_, err = filter.Gettable(ctx, account, matching)
	targets := matching`,
			Killer: row("181"),
		},
	}
}
