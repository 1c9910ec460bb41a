package csv

import "strings"

// pending waits for the requirements, the operator's own ServiceAccounts and roles among them.
func pending(f Facts) Transition {
	switch {
	case f.Prepared != nil:
		t := to(phasePending, reasonRequirementsNotMet, messageNotMet+": "+oneLine(f.Prepared))
		t.After = again(f, f.Prepared)
		return t
	case f.Settling:
		return stay(f)
	case len(f.Excess) > 0:
		return to(phasePending, reasonRequirementsNotMet, messageNotMet+": "+strings.Join(f.Excess, "; "))
	case f.Unmet:
		return to(phasePending, reasonRequirementsNotMet, messageNotMet)
	}
	return to(phaseInstallReady, reasonRequirementsMet, messageMet)
}
