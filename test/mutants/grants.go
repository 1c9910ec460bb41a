package mutants

// grants returns the mutants of the commands that grant permissions and of the warnings about permissions.
func grants() []Mutant {
	const command = "cmd/kubectl-remit/grant"
	return []Mutant{
		{
			Name: "a-changed-grant-is-created", File: command + "/grant.go",
			Old: "	if !isSame(printed, now) {", New: "	if !isSame(printed, printed) {",
			Killer: unit(command, "TestGrantsNothingIfWhatIsMissingHasChanged"),
		},
		{
			Name: "another-plan-is-the-same", File: command + "/grant.go",
			Old: "	return a.Basis == b.Basis && equality", New: "	return equality",
			Killer: unit(command, "TestGrantsNothingIfWhatIsMissingHasChanged"),
		},
		{
			Name: "every-answer-is-yes", File: command + "/grant.go",
			Old: `		if text == "y" || text == "yes" {`, New: `		if text == "y" || text != "" {`,
			Killer: unit(command, "TestGrantsWhatIsMissingAfterAConfirmation"),
		},
		{
			Name: "strangers-are-bound-before-a-grant", File: command + "/grant.go",
			Old: "			if !slices.Contains(wanted, s) {", New: `			if !slices.Contains(wanted, s) && s == "" {`,
			Killer: unit(command, "TestRefusesObjectsOfOthers"),
		},
		{
			Name: "a-binding-without-subjects-is-adopted", File: command + "/grant.go",
			Old: "		case x.Live != nil && !x.Complete:", New: "		case x.Live != nil && !x.Complete && x.Live == nil:",
			Killer: unit(command, "TestRefusesObjectsOfOthers"),
		},
		{
			Name: "a-role-that-aggregates-is-the-same", File: "cmd/kubectl-remit/internal/ensure/compare.go",
			Old: "role.AggregationRule != nil {", New: "role == nil {",
			Killer: unit("cmd/kubectl-remit/internal/ensure", "TestAClusterRoleThatAggregatesOthersIsDifferent"),
		},
		{
			Name: "text-is-applied-with-the-objects", File: "cmd/kubectl-remit/preflight/result.go",
			Old: "	if err := r.text(errOut); err != nil {", New: "	if err := r.text(out); err != nil {",
			Killer: unit("cmd/kubectl-remit/preflight", "TestYAMLConsistsOnlyOfTheGrant"),
		},
		{
			Name: "escaped-characters-are-replaced", File: "cmd/kubectl-remit/internal/cli/format.go",
			Old: "	encode := message.JSON", New: "	encode := message.YAML",
			Killer: unit("cmd/kubectl-remit/internal/cli", "TestTheWriterDoesNotChangeEncodedObjects"),
		},
		{
			Name: "escalation-is-not-reported-if-held", File: "pkg/preflight/report.go",
			Old: "		if n.Granted && !n.Hidden {", New: "		if n.Granted && n.Hidden {",
			Killer: unit("pkg/preflight", "TestWarnsAboutPermissionsWithWhichOthersCanBeObtained"),
		},
		{
			Name: "escalation-is-not-in-the-status", File: "pkg/controller/installplan/conditions.go",
			Old: "message.Lines(warning, f.ChangedText())", New: "message.Lines(f.ChangedText())",
			Killer: unit("pkg/controller/installplan", "TestWarnsAboutEscalationInTheStatusAndOnceInAnEvent"),
		},
		{
			Name: "a-waiting-plan-names-no-account", File: "pkg/controller/installplan/run.go",
			Old: "Namespace: account.Namespace, Name: account.Name, UID: account.UID,", New: "Namespace: account.Namespace, Name: account.Name,",
			Killer: unit("pkg/controller/installplan", "TestAPlanNamesItsAccountBeforeItIsExecuted"),
		},
	}
}
