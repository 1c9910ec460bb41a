package mutants

// policies returns the mutants of the policies that limit Remit's programs, and of the objects that OperatorGroups and
// package-server own. package-server does not start with a policy that differs from its own, so the tests of test/packages cannot
// kill mutants of its policy. The API server itself keeps spec.group and spec.version of an APIService.
func policies() []Mutant {
	const (
		reports, labels, grants = "manifests/extensions/policy/reports.yaml", "manifests/extensions/policy/labels.yaml", "manifests/extensions/policy/grants.yaml"
		copies, groups          = "manifests/policy/copies.yaml", "pkg/controller/operatorgroup"
	)
	self := func(name, file, old, changed, test string) Mutant {
		return Mutant{Name: name, Rule: 4, File: file, Old: old, New: changed, Killer: unit("test/author", test)}
	}
	packages := func(name, old, changed string) Mutant {
		return self(name, "manifests/packages/policy/apiservice.yaml", old, changed, "TestThePolicyOfPackageServerAllowsOnlyTheCA")
	}
	same := func(name, field string) Mutant {
		return packages(name, "      && object."+field+" == oldObject."+field+"\n", "")
	}
	const checksNew, checksExisting = "TestThePolicyOfReportsChecksNewConfigMaps", "TestThePolicyOfReportsChecksExistingConfigMaps"
	return []Mutant{
		self("reports-have-any-owner", reports, "(o.metadata.name == variables.prefix + o.metadata.ownerReferences[0].name ||", "(o.metadata.name.startsWith(variables.prefix) ||", checksNew),
		self("reports-have-owners-of-any-kind", reports, "      && o.metadata.ownerReferences[0].kind == 'ClusterExtension'\n", "", checksNew),
		self("reports-share-names", reports, "size(o.metadata.ownerReferences[0].name) > 200\n", "size(o.metadata.ownerReferences[0].name) > 0\n", checksNew),
		self("reports-of-names-with-a-dot-are-refused", reports, "charAt(199) == '.' ? 199 : 200", "charAt(199) == '.' ? 200 : 200", checksNew),
		self("reports-of-shorter-names", reports, "charAt(199) == '.' ? 199 : 200", "charAt(199) == '.' ? 199 : 199", checksNew),
		self("configmaps-of-others-become-reports", reports, "variables.ca || variables.objects.all(o, size(", "variables.ca || [object].all(o, size(", checksExisting),
		self("keys-of-others-are-replaced", reports, "variables.objects.all(o, o.?data.orValue({}).all(key, key in variables.keys))", "true", checksExisting),
		self("reports-move-to-later-extensions", reports, "request.operation != 'UPDATE' || object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences", "true", checksExisting),
		self("annotations-of-reports-are-removed", reports, "key in object.metadata.?annotations.orValue({}))", "true)", checksExisting),
		self("extension-program-owns-clustercatalogs", labels, "      && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences\n", "", "TestThePolicyOfLabelsAllowsOnlyTheName"),
		self("rules-of-extension-grants-change", grants, "object.?rules == oldObject.?rules", "object.?rules == oldObject.?rules || true", "TestTheRulesOfGrantsForExtensionsCannotBeChanged"),
		self("rules-of-some-extension-grants-change", grants, "object.metadata.name.matches('^remit-extension-(grant|enrollment|author)-')", "object.metadata.name.matches('^remit-extension-enrollment-')", "TestTheRulesOfGrantsForExtensionsCannotBeChanged"),
		self("any-program-is-bound-to-extension-enrollments", grants, "s.?namespace.orValue('') == variables.installation && s.name == 'remit-extension')", "s.?namespace.orValue('') == variables.installation)", "TestAGrantForAnExtensionBindsOnlyTheSubjectInItsName"),
		self("any-namespace-is-bound-to-extension-enrollments", grants, "s.?namespace.orValue('') == variables.installation && s.name", "s.name", "TestAGrantForAnExtensionBindsOnlyTheSubjectInItsName"),
		self("versions-become-copies", copies, "request.operation == 'CREATE' || !('olm.copiedFrom' in object", "true || !('olm.copiedFrom' in object", "TestAVersionCannotBecomeACopy"),
		self("copies-become-versions", copies, "request.operation == 'CREATE' || 'olm.copiedFrom' in object", "true || 'olm.copiedFrom' in object", "TestACopyCannotBecomeAVersion"),
		self("owned-copies-are-deleted", copies, "request.operation == 'DELETE' ? !has(oldObject.metadata.ownerReferences)", "request.operation == 'DELETE' ? true", "TestThePolicyOfCopiesRefusesOwners"),
		self("copies-are-created-with-owners", copies, "!has(object.metadata.ownerReferences) && !has(object.metadata.finalizers)", "!has(object.metadata.finalizers)", "TestThePolicyOfCopiesRefusesOwners"),
		self("owners-of-copies-change", copies, ": object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences\n      && object", ": object", "TestThePolicyOfCopiesRefusesOwners"),

		packages("package-server-is-not-limited", "remit:remit-package-server'", "remit:package-server'"),
		packages("package-server-is-only-audited", "validationActions: [Deny]", "validationActions: [Audit]"),
		packages("package-server-creates-apiservices", "operations: [CREATE, UPDATE]", "operations: [UPDATE]"),
		packages("package-server-writes-the-status-of-apiservices", "[apiservices, apiservices/status]", "[apiservices]"),
		packages("package-server-updates-any-apiservice", " && object.metadata.name == 'v1.packages.operators.coreos.com'", ""),
		same("requests-are-forwarded-to-another-service", "spec.?service"),
		same("requests-are-forwarded-without-verification", "spec.?insecureSkipTLSVerify"),
		same("package-server-changes-the-priority-of-its-group", "spec.groupPriorityMinimum"),
		same("package-server-changes-the-priority-of-its-version", "spec.versionPriority"),
		same("package-server-changes-the-status-of-its-apiservice", "?status"),
		same("package-server-changes-the-labels-of-its-apiservice", "metadata.?labels"),
		same("package-server-changes-the-annotations-of-its-apiservice", "metadata.?annotations"),
		same("package-server-changes-the-owners-of-its-apiservice", "metadata.?ownerReferences"),
		same("package-server-changes-the-finalizers-of-its-apiservice", "metadata.?finalizers"),

		{Name: "groups-inherit-by-the-namespaces-name", Rule: 7, File: groups + "/owner.go", Old: "o.proofs.CheckSince(live, mark, o.since)", New: "o.proofs.Check(live, mark)", Killer: unit(groups, "TestAClusterRoleBelongsToOneGroup")},
		{Name: "groups-of-a-namespace-share-clusterroles", Rule: 7, File: groups + "/owner.go", Old: "o.key.Namespace, o.key.Name, \"\")", New: "o.key.Namespace, \"\", \"\")", Killer: unit(groups, "TestAClusterRoleBelongsToOneGroup")},
		{Name: "groups-of-the-same-name-share-clusterroles", Rule: 7, File: groups + "/owner.go", Old: "o.key.Namespace, o.key.Name, \"\")", New: "\"\", o.key.Name, \"\")", Killer: unit(groups, "TestAClusterRoleBelongsToOneGroup")},
		{Name: "clusterroles-of-an-earlier-namespace-are-deleted", Rule: 7, File: groups + "/cleanup.go", Old: "since: namespace.CreationTimestamp.Time, ", New: "", Killer: unit(groups, "TestClusterRolesOfAnEarlierNamespaceStay")},
		{Name: "clusterroles-of-an-earlier-namespace-are-changed", Rule: 7, File: groups + "/publish.go", Old: "since: namespace.CreationTimestamp.Time, ", New: "", Killer: unit(groups, "TestClusterRolesOfAnEarlierNamespaceStay")},
		{Name: "groups-publish-as-an-unchecked-account", Rule: 1, File: groups + "/publish.go", Old: "	if account != f.Account {", New: "	if account.Name == \"\" {", Killer: unit(groups, "TestWritesNothingAsAnAccountThatTheCacheDoesNotShow")},

		{Name: "catalogs-are-stored-for-other-namespaces", File: "pkg/packages/store/store.go", Old: "header.Source.Namespace != key.Namespace || ", New: "", Killer: unit("pkg/packages/store", "TestPutStoresOnlyTheCatalogThatTheRequestNames")},
		{Name: "catalogs-are-stored-for-other-names", File: "pkg/packages/store/store.go", Old: " || header.Source.Name != key.Name {", New: " {", Killer: unit("pkg/packages/store", "TestPutStoresOnlyTheCatalogThatTheRequestNames")},
		{Name: "icons-of-any-type", Rule: 8, File: "pkg/packages/server/icon.go", Old: "!slices.Contains(iconTypes, kind) || ", New: "", Killer: unit("pkg/packages/server", "TestServesOnlyKnownTypesOfImages")},
		{Name: "icons-have-any-content", Rule: 8, File: "pkg/packages/server/icon.go", Old: " || !isImage(data, kind) {", New: " {", Killer: unit("pkg/packages/server", "TestServesOnlyKnownTypesOfImages")},
	}
}
