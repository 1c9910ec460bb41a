package mutants

// grants returns the mutants of the commands that grant permissions and of the warnings about permissions.
func grants() []Mutant {
	const (
		command   = "cmd/kubectl-remit/grant"
		preflight = "cmd/kubectl-remit/preflight"
		choice    = preflight + "/choice.go"
	)
	return append(grantedPlans(command, preflight, choice), []Mutant{
		{
			Name: "upgrades-ask-to-remove-the-apis-of-others", Rule: 7, File: "pkg/controller/installplan/succession.go",
			Old: "live) == nil && st.Owner.Owns(live)\n", New: "live) == nil\n",
			Killer: unit("pkg/controller/installplan", "TestAnUpgradeAsksToRemoveOnlyWhatBelongsToTheInstall"),
		},
		{
			Name: "upgrades-ask-to-remove-what-a-spec-names", Rule: 7, File: "pkg/preflight/succession.go",
			Old: "		if s.Owned(st) {", New: "		if s.Owned != nil {",
			Killer: unit("pkg/controller/installplan", "TestAnUpgradeAsksToRemoveOnlyWhatBelongsToTheInstall"),
		},
		{
			Name: "extensions-ask-to-remove-what-an-inventory-lists", Rule: 7, File: "pkg/controller/clusterextension/prune.go",
			Old: "	own := err == nil && s.owner.Owns(live)\n", New: "	own := err == nil\n",
			Killer: unit("pkg/controller/clusterextension", "TestTheReportAsksOnlyForPermissionToRemoveWhatTheExtensionOwns"),
		},
		{
			Name: "waiting-upgrades-of-extensions-read-again", Rule: 8, File: "pkg/controller/clusterextension/prune.go",
			Old: "known && is.hash == s.hash {", New: "known && is.hash != s.hash {",
			Killer: unit("pkg/controller/clusterextension", "TestTheReportAsksOnlyForPermissionToRemoveWhatTheExtensionOwns"),
		},
		{
			Name: "commands-ask-to-remove-what-an-inventory-lists", Rule: 7, File: "cmd/kubectl-remit/internal/extension/install.go",
			Old: " || !owned(obj, lineage) {", New: " || owned == nil && lineage.Package != \"\" {",
			Killer: unit("cmd/kubectl-remit/internal/extension", "TestAnUpgradeRemovesObjectsThatTheNewVersionDoesNotHave"),
		},
		{
			Name: "yes-accepts-any-target-namespace", Rule: 1, File: command + "/grant.go",
			Old: "o.Yes && len(flags) > 0 {", New: "o.Yes && len(flags) > len(m.Elsewhere) {",
			Killer: unit(command, "TestDoesNotOmitTheQuestionForTargetsThatAreNotNamed"),
		},
		{
			Name: "target-namespaces-are-not-determined", Rule: 1, File: preflight + "/missing.go",
			Old: "return target == namespace || ", New: "return len(target) > 0 || target == namespace || ",
			Killer: unit(preflight, "TestFindsTheTargetsInWhichSomethingIsGranted"),
		},
		{
			Name: "commands-ask-to-remove-the-apis-of-others", Rule: 7, File: preflight + "/owned.go",
			Old: "err == nil && owner.Marks(live)", New: "err == nil && live != nil",
			Killer: unit(preflight, "TestAnUpgradeRemovesOnlyWhatHasTheLabelOfTheInstall"),
		},
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
	}...)
}

// grantedPlans returns the mutants of the choice of the InstallPlan of a Subscription, and of the comparison of its content.
func grantedPlans(command, preflight, choice string) []Mutant {
	return []Mutant{
		{
			Name: "yes-accepts-unconfirmed-content", File: command + "/grant.go",
			Old: "	if o.Yes && m.Unconfirmed != nil {", New: "	if o.Yes && m.Unconfirmed != nil && m.Objects == nil {",
			Killer: unit(command, "TestDoesNotOmitTheQuestionForUnconfirmedContent"),
		},
		{
			Name: "content-is-confirmed-only-the-first-time", File: command + "/grant.go",
			Old: "	if err := o.checkConfirmed(now); err != nil {", New: "	if err := o.checkConfirmed(printed); err != nil {",
			Killer: unit(command, "TestDoesNotOmitTheQuestionForUnconfirmedContent"),
		},
		{
			Name: "a-recreated-subscription-has-the-plan", File: choice,
			Old: "pin.SubscriptionUID == sub.UID && ", New: "",
			Killer: unit(preflight, "TestTheStatusOfASubscriptionDoesNotSelectItsPlan"),
		},
		{
			Name: "another-package-is-selected", File: choice,
			Old: " && pin.Package == spec.Package &&", New: " &&",
			Killer: unit(preflight, "TestTheStatusOfASubscriptionDoesNotSelectItsPlan"),
		},
		{
			Name: "another-catalog-is-selected", File: choice,
			Old: "		pin.Catalog == spec.CatalogSource && ", New: "		",
			Killer: unit(preflight, "TestTheStatusOfASubscriptionDoesNotSelectItsPlan"),
		},
		{
			Name: "a-catalog-of-another-namespace-is-selected", File: choice,
			Old: "pin.CatalogNamespace == spec.CatalogSourceNamespace && ", New: "",
			Killer: unit(preflight, "TestTheStatusOfASubscriptionDoesNotSelectItsPlan"),
		},
		{
			Name: "another-channel-is-selected", File: choice,
			Old: `(spec.Channel == "" || spec.Channel == pin.Channel)`, New: "spec != nil",
			Killer: unit(preflight, "TestAPlanForAnotherChannelIsNotThePlan"),
		},
		{
			Name: "other-pins-are-not-compared-with-subscriptions", File: choice,
			Old: "		if err != nil || !isFor(pin, sub) {", New: "		if err != nil || sub == nil {",
			Killer: unit(preflight, "TestTheStatusOfASubscriptionDoesNotSelectItsPlan"),
		},
		{
			Name: "one-of-several-plans-is-taken", File: choice,
			Old: "	case len(executed) == 1:", New: "	case len(executed) >= 1:",
			Killer: unit(preflight, "TestSeveralPlansOfWhichNoneIsConfirmed"),
		},
		{
			Name: "a-finished-plan-is-executed", File: choice,
			Old: `		if whyOver(plan) != "" {`, New: `		if whyOver(plan) == "-" {`,
			Killer: unit(preflight, "TestTheStatusOfASubscriptionDoesNotSelectItsPlan"),
		},
		{
			Name: "a-finished-plan-is-granted", File: choice,
			Old: `	if why := whyOver(i.plan); why != "" {
		return fmt`, New: `	if why := whyOver(i.plan); why == "-" {
		return fmt`,
			Killer: unit(preflight, "TestNothingIsGrantedForAPlanThatIsNotExecuted"),
		},
		{
			Name: "unavailable-content-is-granted", File: choice,
			Old: "	case string(reason) == names.ReasonBundleContentUnavailable:", New: `	case string(reason) == "-":`,
			Killer: unit(preflight, "TestNothingIsGrantedForAPlanThatIsNotExecuted"),
		},
		{
			Name: "different-content-is-granted", File: choice,
			Old: "		if o.Differs {", New: "		if o.Differs && o.Given {",
			Killer: unit(preflight, "TestWhatIsConfirmed"),
		},
		{
			Name: "the-catalog-confirms-bundles-of-others", File: choice,
			Old: "		return !o.IsConfirmed() || !o.Given && !isSelected", New: "		return !o.IsConfirmed() || !o.Given && !isSelected && sub == nil",
			Killer: unit(preflight, "TestWhatIsConfirmed"),
		},
		{
			Name: "any-channel-is-the-default-channel", File: choice,
			Old: " && o.Pin.Channel == cmp.Or(sub.Spec.Channel, o.DefaultChannel)", New: ` && o.Pin.Channel != cmp.Or("")`,
			Killer: unit(preflight, "TestOnlyTheDefaultChannelIsSelectedWithoutAChannel"),
		},
		{
			Name: "content-without-a-source-is-confirmed", File: "cmd/kubectl-remit/internal/source/origin.go",
			Old: `func (o Origin) IsConfirmed() bool { return o.Confirmed != "" }`, New: `func (o Origin) IsConfirmed() bool { return o.Confirmed != "-" }`,
			Killer: unit(preflight, "TestWhatIsConfirmed"),
		},
		{
			Name: "any-digest-of-the-catalog-confirms", File: "cmd/kubectl-remit/internal/source/origin.go",
			Old: "	case content.Digest() == o.Pin.Digest:", New: `	case content.Digest() != "":`,
			Killer: unit(preflight, "TestWhatIsConfirmed"),
		},
		{
			Name: "any-digest-of-a-given-bundle-confirms", File: "cmd/kubectl-remit/internal/source/origin.go",
			Old: "return b.Content.Digest() == pin.Digest }):", New: `return b.Content.Digest() != "" }):`,
			Killer: unit(preflight, "TestWhatIsConfirmed"),
		},
		{
			Name: "kept-content-hides-a-different-bundle", File: "cmd/kubectl-remit/internal/source/plan.go",
			Old: "		case len(of) > 0: //", New: "		case len(of) > 0 && content == nil: //",
			Killer: unit("cmd/kubectl-remit/plan", "TestReadsContentFromTheGivenBundles"),
		},
	}
}
