package csv

// waiting reports what the CSV waits for.
func waiting(f Facts) Transition {
	message := messageUnknown
	if f.Waits != "" {
		message += ": " + f.Waits
	}
	return to(phasePending, reasonRequirementsUnknown, message)
}

// pending waits for the requirements, including the operator's own ServiceAccounts and roles.
func pending(f Facts) Transition {
	switch {
	case f.Waits != "":
		return waiting(f)
	case f.renews():
	case f.Prepared != nil:
		t := to(phasePending, reasonRequirementsNotMet, messageNotMet+": "+oneLine(f.Prepared))
		t.After = recheckAfter(f, f.Prepared)
		return t
	case f.Unsynced || !f.Evaluated:
		return stay(f)
	case f.Excess != nil:
		return to(phasePending, reasonRequirementsNotMet, messageNotMet+": "+f.Excess.Error())
	case f.Unmet:
		return to(phasePending, reasonRequirementsNotMet, messageNotMet)
	}
	return to(phaseInstallReady, reasonRequirementsMet, messageMet)
}
