package mutants

// noise returns the mutants of the rule that what handlers of events do for one object does not depend on the number of others.
func noise() []Mutant {
	return []Mutant{
		{
			Name: "existing-objects-are-compared-at-each-start", Rule: 8, File: "pkg/controller/kit/changes.go",
			Old:    "return !e.IsInInitialList ",
			New:    "return true ",
			Killer: unit("pkg/controller/kit", "TestDropsObjectsThatExistWhenAWatchBegins"),
		},
		{
			Name: "existing-services-are-compared-with-versions", Rule: 8, File: "pkg/controller/csv/wake.go",
			Old:    "(r.calledThrough), later)",
			New:    "(r.calledThrough))",
			Killer: unit("pkg/controller/csv", "TestExistingObjectsAreNotCompared"),
		},
		{
			Name: "existing-namespaces-wake-global-operators", Rule: 8, File: "pkg/controller/copiedcsv/watches.go",
			Old:    "builder.WithPredicates(changing(), kit.DropExisting())",
			New:    "builder.WithPredicates(changing())",
			Killer: unit("pkg/controller/copiedcsv", "TestExistingObjectsAreNotCompared"),
		},
		{
			Name: "each-operatorgroup-wakes-its-namespace", Rule: 8, File: "pkg/controller/kit/wake.go",
			Old:    "	groups = scoped.OnePerNamespace(groups)\n",
			New:    "",
			Killer: unit("pkg/controller/kit", "TestSeveralGroupsOfANamespaceAreHandledOnce"),
		},
		{
			Name: "each-global-operatorgroup-wakes-its-namespace", Rule: 8, File: "pkg/controller/copiedcsv/watches.go",
			Old:    "	all = scoped.OnePerNamespace(all)\n",
			New:    "",
			Killer: unit("pkg/controller/copiedcsv", "TestSeveralGroupsOfANamespaceWakeItsSourcesOnce"),
		},
		{
			Name: "a-version-is-indexed-by-thousands-of-apis", Rule: 8, File: "pkg/install/provided/api.go",
			Old:    "len(csv.Spec.APIServiceDefinitions.Owned) > maxIndexed {",
			New:    "len(csv.Spec.APIServiceDefinitions.Owned) > 100*maxIndexed {",
			Killer: unit("pkg/install/provided", "TestAVersionWithManyAPIsIsIndexedOnce"),
		},
		{
			Name: "an-operator-with-many-apis-has-no-conflicts", Rule: 6, File: "pkg/install/provided/conflict.go",
			Old:    "	out = append(out, examine(many, wanted)...)\n",
			New:    "	examine(many, wanted)\n",
			Killer: unit("pkg/install/provided", "TestAVersionWithManyAPIsHasConflicts"),
		},
		{
			Name: "all-apis-of-other-tenants-are-examined", Rule: 8, File: "pkg/install/provided/conflict.go",
			Old:    "examined > maxExamined {",
			New:    "examined > 2*maxExamined {",
			Killer: unit("pkg/install/provided", "TestOnlySomeAPIsOfOtherTenantsAreExamined"),
		},
		{
			Name: "labels-compare-all-apis-of-a-version", Rule: 8, File: "pkg/controller/operatorgroup/watches.go",
			Old:    "!sameSpec(before, after) && !provided.Same(before, after)",
			New:    "!slices.Equal(provided.Of(before), provided.Of(after))",
			Killer: unit("pkg/controller/operatorgroup", "TestAnUpdateOfALabelComparesNoAPIs"),
		},
		{
			Name: "labels-of-an-operatorgroup-wake-its-versions", Rule: 8, File: "pkg/controller/csv/noise.go",
			Old:    "slices.ContainsFunc(read, differs) ||",
			New:    "slices.ContainsFunc(read, differs) || true ||",
			Killer: unit("pkg/controller/csv", "TestOnlyWhatIsReadOfAnOperatorGroupWakesItsVersions"),
		},
		{
			Name: "foreign-deployments-are-compared-with-versions", Rule: 8, File: "pkg/controller/csv/noise.go",
			Old:    "e.ObjectOld.GetUID() != e.ObjectNew.GetUID()",
			New:    "true",
			Killer: unit("pkg/controller/csv", "TestOnlyTheDeletionOfAForeignDeploymentWakesVersions"),
		},
		{
			Name: "long-lists-are-indexed", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    "len(spec.Permissions), len(spec.ClusterPermissions)) > maxCompared",
			New:    "len(spec.Permissions)) > maxCompared",
			Killer: unit("pkg/controller/csv", "TestLongListsAreNotIndexed"),
		},
		{
			Name: "any-number-of-names-is-indexed", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    "	if len(out) > maxNames {",
			New:    "	if false {",
			Killer: unit("pkg/controller/csv", "TestAVersionHasKeysForWhatItNames"),
		},
		{
			Name: "names-of-any-length-are-indexed", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    ` && len(name) <= validation.DNS1123SubdomainMaxLength }`,
			New:    ` && validation.DNS1123SubdomainMaxLength > 0 }`,
			Killer: unit("pkg/controller/csv", "TestAVersionHasKeysForWhatItIs"),
		},
		{
			Name: "an-event-wakes-any-number-of-versions", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    "kind+obj.GetName(), match, client.Limit(maxWoken)),",
			New:    "kind+obj.GetName(), match),",
			Killer: unit("pkg/controller/csv", "TestEventsReadOnlyTheVersionsThatTheyConcern"),
		},
		{
			Name: "versions-with-many-names-are-not-woken", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    "		r.keyed(ctx, obj.GetNamespace(), manyNames, match, client.Limit(maxWoken))...)",
			New:    "		nil...)",
			Killer: unit("pkg/controller/csv", "TestVersionsWithManyNamesAreWokenByEachObject"),
		},
		{
			Name: "any-number-of-definitions-is-indexed", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    "if n, _ := countNamed(csv); n > maxCompared {",
			New:    "if n, _ := countNamed(csv); n > 10*maxCompared {",
			Killer: unit("pkg/controller/csv", "TestAVersionHasKeysForWhatItNamesInTheCluster"),
		},
		{
			Name: "any-definition-wakes-versions-with-many-names", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    "if _, longest := countNamed(csv); longest > maxNamed {",
			New:    "if _, longest := countNamed(csv); longest > 0*maxNamed {",
			Killer: unit("pkg/controller/csv", "TestObjectsOfTheClusterWakeTheVersionsThatNameThem"),
		},
		{
			Name: "versions-that-wait-for-native-apis-are-not-woken", Rule: 0, File: "pkg/controller/csv/wake.go",
			Old:    "r.anywhere(ctx, isWaiting, byNativeAPI))",
			New:    "nil)",
			Killer: unit("pkg/controller/csv", "TestObjectsOfTheClusterWakeTheVersionsThatNameThem"),
		},
		{
			Name: "definitions-are-compared-with-all-versions", Rule: 8, File: "pkg/controller/csv/indexes.go",
			Old:    "r.matching(ctx, match, client.MatchingFields{wakesIndex: key})...)",
			New:    "r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool { return match(csv) && slices.Contains(clusterKeys(csv), key) })...)",
			Killer: unit("pkg/controller/csv", "TestObjectsOfTheClusterWakeTheVersionsThatNameThem"),
		},
		{
			Name: "each-change-of-a-definition-wakes-all-tenants", Rule: 8, File: "pkg/controller/subscription/kinds.go",
			Old:    "!slices.Equal(servedBy(before), servedBy(after))",
			New:    "(before != after || !slices.Equal(servedBy(before), servedBy(after)))",
			Killer: unit("pkg/controller/subscription", "TestOnlyChangesToServedKindsWake"),
		},
		{
			Name: "versions-after-the-next-are-not-woken", Rule: 8, File: "pkg/controller/csv/upgradeable.go",
			Old:    "				out = append(out, newer)",
			New:    "				return append(out, newer)",
			Killer: unit("pkg/controller/csv", "TestAConditionWakesAllLaterVersions"),
		},
	}
}
