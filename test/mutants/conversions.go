package mutants

// conversions returns the mutants of the guards that decide which conversions the installation's CRD account writes.
func conversions() []Mutant {
	const killer = "TestTheCRDAccountSetsOnlyConversionsThatTheAccountMaySet"
	return []Mutant{
		{
			Name: "conversions-of-the-crd-account-need-nothing", Rule: 1, File: "pkg/preflight/need.go",
			Old:    "ConversionNeed(s); ok && skip(s) {",
			New:    "ConversionNeed(s); ok && !skip(s) {",
			Killer: unit("pkg/preflight", "TestAConversionThatAnotherAccountWritesHasItsNeed"),
		},
		{
			Name: "conversions-that-are-not-understood-need-nothing", Rule: 1, File: "pkg/install/webhook/conversion.go",
			Old:    "	return found && !none || err != nil\n",
			New:    "	return found && !none\n",
			Killer: unit("pkg/preflight", "TestAConversionThatAnotherAccountWritesHasItsNeed"),
		},
		{
			Name: "an-invalid-config-hides-the-needs", Rule: 1, File: "pkg/preflight/endpoints.go",
			Old:    "		return endpoints{}, &ConfigError{CSV: apply.Describe(s.Object), Err: wrong}\n",
			New:    "		return endpoints{}, nil\n",
			Killer: unit("pkg/controller/installplan", killer),
		},
		{
			Name: "undecided-conversions-are-written", Rule: 1, File: "pkg/controller/installplan/preflight.go",
			Old:    `	case undecided != "":`,
			New:    `	case undecided != "" && ctx == nil:`,
			Killer: unit("pkg/controller/installplan", killer),
		},
	}
}
