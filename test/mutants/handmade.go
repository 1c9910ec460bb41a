package mutants

// handMade returns the mutants of the guards for ClusterServiceVersions that users create.
func handMade() []Mutant {
	return []Mutant{
		{
			Name: "the-default-account-grants-what-users-list", Rule: 5, File: "pkg/controller/csv/handmade.go",
			Old:    "return s.owner.Direct && s.account.Default",
			New:    "return false",
			Killer: unit("pkg/controller/csv", "TestTheDefaultAccountOnlyChecksWhatAHandMadeCSVNeeds"),
		},
		{
			Name: "a-plans-csv-is-only-checked", Rule: 5, File: "pkg/controller/csv/handmade.go",
			Old:    "return s.owner.Direct && s.account.Default",
			New:    "return s.account.Default",
			Killer: unit("pkg/controller/csv", "TestOtherCSVsAreProvidedFor"),
		},
		{
			Name: "a-groups-account-only-checks", Rule: 5, File: "pkg/controller/csv/handmade.go",
			Old:    "return s.owner.Direct && s.account.Default",
			New:    "return s.owner.Direct",
			Killer: unit("pkg/controller/csv", "TestOtherCSVsAreProvidedFor"),
		},
		{
			Name: "an-existing-serviceaccount-is-not-compared", Rule: 5, File: "pkg/install/deployment/identity.go",
			Old:    "		if at, made := by.Made(key.Name); made {",
			New:    "		if at, made := by.Made(key.Name); made || at.IsZero() {",
			Killer: unit("pkg/controller/csv", "TestTheDefaultAccountOnlyChecksWhatAHandMadeCSVNeeds"),
		},
		{
			Name: "a-step-of-another-subscription-is-shown", Rule: 3, File: "pkg/controller/installplan/dependencies.go",
			Old:    "!exists || sub.UID != pin.SubscriptionUID ||",
			New:    "!exists ||",
			Killer: unit("pkg/controller/installplan", "TestAPlanShowsTheSubscriptionOfADependency"),
		},
	}
}
