package csv

import (
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Facts are all that Next decides by.
type Facts struct {
	// CSV is as it was read, and as its status has become since: phase, reason, message and history of that
	// are input.
	CSV *operatorsv1alpha1.ClusterServiceVersion
	Now time.Time

	// ReplacedBy names a ClusterServiceVersion that replaces this one. Replaced says that one which came
	// after it has succeeded.
	ReplacedBy string
	Replaced   bool
	// Forward says that the OperatorGroup lets a version that has failed be replaced.
	Forward bool
	// Older names the ClusterServiceVersion that this one replaces, while it exists.
	Older string
	// Waits says for whom a CSV that was never installed waits before anything of it is looked at: the
	// older one, until that steps back, or the plan that brings it.
	Waits string
	// Group says why the namespace's OperatorGroups do not allow this CSV to run.
	Group *Problem
	// Strategy says what is wrong with the install strategy; only its author can mend it.
	Strategy error
	// Webhooks and APIs say what is wrong with the CSV's webhooks and APIs; only its author can mend it.
	Webhooks, APIs error
	// Taken says which of its APIs somebody else serves.
	Taken error
	// Account says why there is no account to act as.
	Account *scoped.Error
	// Excess are the CSV's permissions that the account does not hold and may not grant either.
	Excess *LacksError
	// Prepared says why the operator's ServiceAccounts, roles and certificates could not be made.
	Prepared error
	// Unsynced says that some of them were just written: their watches bring this CSV back.
	Unsynced bool
	// Evaluated says that the full check was made, and Obsolete that all that is left is to remove what belongs to the CSV.
	Evaluated, Obsolete bool
	// Same says that the Deployments are, apart from certificates, what was written from this spec.
	Same bool
	// Unmet says that a requirement is missing.
	Unmet bool
	// Refused says why the Deployments would not be written, without trying.
	Refused error
	// Probe is the answer to a dry run of the Deployments that were refused before.
	Probe error
	// Deployments is how they stand. Due says that one may be written now.
	Deployments deployment.State
	Due         bool
	// Rolling says that Pods serve by an authority that is being replaced.
	Rolling bool
	// Calls is how the operator's webhooks and APIs stand, and CallRefused why they could not be written.
	Calls       hooks.State
	CallRefused error
	// Notes are said with a success: what is not as it should be and yet no reason to fail.
	Notes []string
}

// Problem is a reason and message of the contract.
type Problem struct {
	Reason  operatorsv1alpha1.ConditionReason
	Message string
}

// Transition is where a ClusterServiceVersion goes, or that it stays.
type Transition struct {
	Phase   operatorsv1alpha1.ClusterServiceVersionPhase
	Reason  operatorsv1alpha1.ConditionReason
	Message string
	// Install asks for the Deployments to be written first; the transition holds if they are.
	Install bool
	// Remove asks for the CSV itself to be deleted.
	Remove bool
	// After asks to be woken though nothing may happen.
	After time.Duration
}

func to(phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason, message string) Transition {
	return Transition{Phase: phase, Reason: reason, Message: message}
}

func stay(f Facts) Transition {
	s := f.CSV.Status
	return to(s.Phase, s.Reason, s.Message)
}
