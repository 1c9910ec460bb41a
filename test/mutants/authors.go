package mutants

// authors returns the mutants of the guards of docs/adr/0085, and of what the command line hides or waits for.
func authors() []Mutant {
	return []Mutant{
		{
			Name: "pipes-are-read-as-manifests", File: "pkg/catalog/regular.go",
			Old:    "if err == nil && !info.IsDir() && !info.Mode().IsRegular() {",
			New:    "if err == nil && !info.IsDir() && !info.Mode().IsRegular() && name == \"\" {",
			Killer: unit("cmd/kubectl-remit/internal/grants", "TestRefusesFilesThatAreNotRegular"),
		},
		{
			Name: "labels-hide-installed-versions", Rule: 3, File: "cmd/kubectl-remit/status/copies.go",
			Old:    "csv.Status.Reason == operatorsv1alpha1.CSVReasonCopied &&",
			New:    "",
			Killer: unit("cmd/kubectl-remit/status", "TestHidesNoCSVThatIsNotACopy"),
		},
	}
}
