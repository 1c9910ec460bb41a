package csv

import (
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Facts is the input of Next.
type Facts struct {
	// CSV is the object as it was read, with the status changes made in this reconcile. The phase, reason, message and
	// history in its status are inputs.
	CSV *operatorsv1alpha1.ClusterServiceVersion
	Now time.Time

	// ReplacedBy names a ClusterServiceVersion that replaces this CSV. Replaced is true if a later version has succeeded.
	ReplacedBy string
	Replaced   bool
	// Forward is true if the OperatorGroup allows replacing a failed version.
	Forward bool
	// Older names the ClusterServiceVersion that this CSV replaces; it is empty if the older CSV no longer exists.
	Older string
	// Waits describes what a CSV that was never installed is still waiting for: the replacement of its older version to
	// begin, or the InstallPlan that installs the CSV to finish.
	Waits string
	// HeldBack is the reason why the operator does not allow its older version to be replaced; Waits then contains this reason as
	// well.
	HeldBack string
	// Group is set if the namespace's OperatorGroups do not allow this CSV to run.
	Group *Problem
	// Strategy is an error in the install strategy, which only its author can fix.
	Strategy error
	// Webhooks and APIs are errors in the CSV's webhooks and APIs, which only its author can fix.
	Webhooks, APIs error
	// Taken is set if another owner serves one of the CSV's APIs.
	Taken error
	// Contested describes an older CSV of another lineage in the namespace that owns one of the CSV's kinds; "" if there is
	// none.
	Contested string
	// Account is set if there is no account to act as, or if nothing may be installed as the account because its OperatorGroup is
	// being deleted.
	Account *scoped.Error
	// Excess lists the permissions of the CSV that the account does not have and is not allowed to grant.
	Excess error
	// Exceeding describes the roles and bindings of the operator that the account would not be allowed to write any more,
	// and what happens to them; "" if there are none, or if they are kept. Exceeds is true if the API server has confirmed
	// this and the grace period is over, and Shrunk if their removal was then tried.
	Exceeding       string
	Exceeds, Shrunk bool
	// Unconfirmed is true if a Role of the operator has rules that the account was not allowed to remove although another user may have
	// bound the Role.
	Unconfirmed bool
	// Elsewhere is like Exceeding, for other namespaces than the CSV's own, in which Exceeding and Shrunk describe nothing. It does not
	// affect the phase, because users of these namespaces can cause it.
	Elsewhere string
	// Intercepts is true if the API server has confirmed that a live webhook intercepts what the account does not permit.
	Intercepts bool
	// Prepared is the error that prevented creating the operator's ServiceAccounts, roles or certificates.
	Prepared error
	// Postponed is why a role or binding cannot be written yet in a target namespace, or is refused there, which does not affect the others.
	Postponed error
	// Unsynced is true if this reconcile wrote objects that the cache does not show yet. Their watch events trigger
	// another reconcile.
	Unsynced bool
	// Unwritten is true if another reconcile writes the remaining ServiceAccounts and roles of the operator. Progress says how many
	// objects have been written or removed, if another reconcile continues.
	Unwritten bool
	Progress  string
	// Evaluated is true if all checks were performed, and Obsolete if only cleanup remains to be done.
	Evaluated, Obsolete bool
	// Same is true if the existing Deployments match the CSV's spec, apart from certificates.
	Same bool
	// Unmet is true if a requirement is missing.
	Unmet bool
	// Refused is the error that writing the Deployments would return, predicted without sending a request.
	Refused error
	// Probe is the result of a dry run of Deployments that were refused before. It can be undecided (see isUndecided).
	Probe error
	// WasRefused is true if a check since the failure found that the Deployments would be refused. A dry run that is then
	// accepted counts as a change.
	WasRefused bool
	// Deployments is the state of the operator's Deployments. Due is true if one of them can be written now.
	Deployments deployment.State
	Due         bool
	// Rolling is true if Pods use a CA that is being replaced.
	Rolling bool
	// Calls is the state of the operator's webhooks and APIs. CallRefused is the error that prevented writing them.
	Calls       hooks.State
	CallRefused error
	// Notes describe deviations that are not failures. They are appended to the message of phase Succeeded.
	Notes []string
}

// exceeding returns the reports about the permissions that exceed the account.
func (f Facts) exceeding() []string {
	return slices.DeleteFunc([]string{f.Exceeding, f.Elsewhere}, func(report string) bool { return report == "" })
}

// Problem is a condition reason and message that the contract defines.
type Problem struct {
	Reason  operatorsv1alpha1.ConditionReason
	Message string
}

// Transition is the next phase of a ClusterServiceVersion, or the current one.
type Transition struct {
	Phase   operatorsv1alpha1.ClusterServiceVersionPhase
	Reason  operatorsv1alpha1.ConditionReason
	Message string
	// Detail is the message of the transition's event if it differs from Message, which tools compare.
	Detail string
	// Install requests that the Deployments be written first. The transition applies only if the write succeeds.
	Install bool
	// Remove requests that the CSV be deleted.
	Remove bool
	// After is the delay before another reconcile without an event; 0 requests none.
	After time.Duration
}

func to(phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason, message string) Transition {
	return Transition{Phase: phase, Reason: reason, Message: message}
}

// requeueAfter requests another reconcile after a delay.
func (t Transition) requeueAfter(after time.Duration) Transition {
	t.After = after
	return t
}

func stay(f Facts) Transition {
	s := f.CSV.Status
	return to(s.Phase, s.Reason, s.Message)
}
