package mutants

// optIn returns the mutants of decisions without an opt-in: what no permission and no annotation allows.
func optIn() []Mutant {
	return []Mutant{
		{
			Name: "wildcards-for-cluster-scoped-objects-reach-namespaces", Rule: 1, File: "pkg/install/webhook/refused.go",
			Old:    "rule.Scope != nil && *rule.Scope == admissionregistrationv1.ClusterScope",
			New:    "false",
			Killer: unit("pkg/install/webhook", "TestABoundedGroupDoesNotInterceptRefusedResources"),
		},
		{
			Name: "a-collision-advises-to-delete-a-crd", File: "pkg/lib/apply/remedy.go",
			Old:    `switch isCRD := KindOf(live) == "CustomResourceDefinition"; {`,
			New:    `switch isCRD := false; {`,
			Killer: unit("pkg/lib/apply", "TestRemediesNameLabelsThatExistAndKeepDefinitions"),
		},
	}
}
