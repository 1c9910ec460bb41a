package csv

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

func TestNoOtherProblemHidesAnExcess(t *testing.T) {
	t.Parallel()
	const report = "ExceedsAccount: the account is missing permissions: x; to remove them, run: kubectl delete y"
	for name, f := range map[string]Facts{
		"an invalid strategy":         given(phaseSucceeded, reasonInstallSuccessful, func(f *Facts) { f.Strategy = errors.New("strategy") }),
		"a replacing version":         given(phaseSucceeded, reasonInstallSuccessful, func(f *Facts) { f.ReplacedBy = "demo.v2.0.0" }),
		"an account without a client": given(phaseFailed, reasonNoRetry, func(f *Facts) { f.Account = &scoped.Error{Reason: scoped.NoAccount, Message: "names none"} }),
		"unmet requirements":          given(phasePending, reasonRequirementsUnknown, func(f *Facts) { f.Unmet = true }),
		"a failed check":              given(phaseFailed, reasonInstallCheckFailed, deployments(waitingD)),
		"nothing else":                given(phaseSucceeded, reasonInstallSuccessful, deployments(ready)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			without := Next(f)
			f.Exceeding = report
			got := Next(f)
			require.Equal(t, without.Phase, got.Phase)
			require.Contains(t, got.Message, report)

			// The next reconcile reports it once, and no longer if the account has the permissions again.
			f.CSV = f.CSV.DeepCopy()
			f.CSV.SetPhase(got.Phase, got.Reason, got.Message, &start)
			f.Exceeding = report + " z"
			require.Equal(t, got.Message+" z", Next(f).Message)
			f.Exceeding = ""
			require.NotContains(t, Next(f).Message, noteExceeds)
		})
	}
	contract := given(phaseSucceeded, reasonInstallSuccessful, func(f *Facts) { f.Group = &Problem{reasonNoOperatorGroup, messageNoGroup} })
	contract.Exceeding = report
	require.Equal(t, messageNoGroup, Next(contract).Message, "the contract defines it")
	require.Contains(t, Next(contract).Detail, report)
}

func TestNoOtherProblemHidesAnExcessElsewhere(t *testing.T) {
	t.Parallel()
	const own, elsewhere = "ExceedsAccount: own", "ExceedsAccount: elsewhere"
	for name, f := range map[string]Facts{
		"an invalid strategy": given(phaseSucceeded, reasonInstallSuccessful, func(f *Facts) { f.Strategy = errors.New("strategy") }),
		"a removal":           given(phaseSucceeded, reasonInstallSuccessful, func(f *Facts) { f.Shrunk = true }),
		"nothing else":        given(phaseSucceeded, reasonInstallSuccessful, deployments(ready)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.Exceeding, f.Elsewhere = own, elsewhere
			require.Contains(t, Next(f).Message, own+separator+elsewhere)
		})
	}
}
