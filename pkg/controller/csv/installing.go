package csv

import "fmt"

// installing waits until the Deployments are available. A Deployment that is missing or differs is written again
// immediately: usually the cache has not observed it yet, and then nothing is written.
func installing(f Facts) Transition {
	d := f.Deployments
	if running(f) {
		return success(f)
	}
	left := installTimeout
	if last := f.CSV.Status.LastTransitionTime; last != nil {
		left = last.Add(installTimeout).Sub(f.Now)
	}
	problem := d.Problem
	if f.Calls.Problem != "" {
		problem = f.Calls.Problem
	}
	switch {
	case left <= 0:
		return to(phaseFailed, reasonInstallCheckFailed, messageTimeout+": "+problem)
	case d.Stuck:
		return to(phaseFailed, reasonInstallCheckFailed, fmt.Sprintf(messageInstallFailed, d.Problem))
	case !d.Installed && f.Refused != nil:
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, f.Refused))
	case f.CallRefused != nil:
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, f.CallRefused))
	}
	if f.Due && !f.Unsynced && !f.installs() {
		return pending(f)
	}
	t := to(phaseInstalling, reasonWaiting, fmt.Sprintf(messageInstalling, problem))
	t.Install = f.Due && !f.Unsynced
	t.After = left
	return t
}
