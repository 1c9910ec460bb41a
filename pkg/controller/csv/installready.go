package csv

import "fmt"

// installReady writes the Deployments, unless they are unchanged or known to be refused.
func installReady(f Facts) Transition {
	if f.Refused != nil {
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, f.Refused))
	}
	if !f.installs() {
		return pending(f)
	}
	t := to(phaseInstalling, reasonInstallSuccessful, messageWritten)
	t.Install = !f.Deployments.Untouched
	return t
}
