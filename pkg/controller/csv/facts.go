package csv

import (
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Facts is the input of Next.
type Facts struct {
	// CSV is as it was read, with the status changes made since. The phase, reason, message and history of its status
	// are input.
	CSV *operatorsv1alpha1.ClusterServiceVersion
	Now time.Time

	// ReplacedBy names a ClusterServiceVersion that replaces this one. Replaced is true if a later version has
	// succeeded.
	ReplacedBy string
	Replaced   bool
	// Forward is true if the OperatorGroup allows replacing a failed version.
	Forward bool
	// Older names the ClusterServiceVersion that this one replaces, while it exists.
	Older string
	// Waits is what a CSV that was never installed waits for before it is evaluated: the older version, until that is
	// being replaced, or the InstallPlan that installs it.
	Waits string
	// Group is the reason that the namespace's OperatorGroups do not allow this CSV to run.
	Group *Problem
	// Strategy is an error in the install strategy, which only its author can fix.
	Strategy error
	// Webhooks and APIs are errors in the CSV's webhooks and APIs, which only its author can fix.
	Webhooks, APIs error
	// Taken is the error if another owner serves one of its APIs.
	Taken error
	// Account is the reason that there is no account to act as.
	Account *scoped.Error
	// Excess lists the CSV's permissions that the account neither has nor may grant.
	Excess error
	// Prepared is the reason that the operator's ServiceAccounts, roles or certificates could not be created.
	Prepared error
	// Unsynced is true if some of them were just written: their watches trigger another reconcile.
	Unsynced bool
	// Evaluated is true if the full check was made, and Obsolete if only cleanup is left to do.
	Evaluated, Obsolete bool
	// Same is true if the Deployments, apart from certificates, are as written from this spec.
	Same bool
	// Unmet is true if a requirement is missing.
	Unmet bool
	// Refused is the reason that writing the Deployments would fail, determined without trying.
	Refused error
	// Probe is the result of a dry run of Deployments that were refused before.
	Probe error
	// WasRefused is true if a check has found since the failure that the Deployments would be refused. An accepted dry
	// run is then a change.
	WasRefused bool
	// Deployments is their state. Due is true if one may be written now.
	Deployments deployment.State
	Due         bool
	// Rolling is true if Pods use a CA that is being replaced.
	Rolling bool
	// Calls is the state of the operator's webhooks and APIs, and CallRefused the reason that they could not be
	// written.
	Calls       hooks.State
	CallRefused error
	// Notes are appended to the message of a success: deviations that are not failures.
	Notes []string
}

// Problem is a reason and message of the contract.
type Problem struct {
	Reason  operatorsv1alpha1.ConditionReason
	Message string
}

// Transition is the next phase of a ClusterServiceVersion, or the current one.
type Transition struct {
	Phase   operatorsv1alpha1.ClusterServiceVersionPhase
	Reason  operatorsv1alpha1.ConditionReason
	Message string
	// Install requests writing the Deployments first; the transition applies if this succeeds.
	Install bool
	// Remove requests deleting the CSV itself.
	Remove bool
	// After requests another reconcile without an event.
	After time.Duration
}

func to(phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason, message string) Transition {
	return Transition{Phase: phase, Reason: reason, Message: message}
}

// again requests another reconcile after a delay.
func (t Transition) again(after time.Duration) Transition {
	t.After = after
	return t
}

func stay(f Facts) Transition {
	s := f.CSV.Status
	return to(s.Phase, s.Reason, s.Message)
}
