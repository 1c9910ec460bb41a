package csv

import (
	"cmp"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/webhook"
)

// check returns nil if its condition is met, and otherwise the transition that reports the problem.
type check func(Facts) *Transition

// checks are evaluated in order; the first failing check determines the reason that users see.
type checks []check

// eligible contains the checks that must pass in every phase, regardless of the account.
var eligible = checks{
	groupSuits,    // one OperatorGroup exists, its targets are known, and the CSV supports them
	strategyValid, // the CSV's content, Deployments and scopes are valid
	webhooksValid,
	apisValid,
	apisUnclaimed,  // no other owner serves one of the CSV's APIs
	kindsUnclaimed, // no other operator of the namespace owns one of the CSV's kinds
}

// installable contains the checks that must pass before Deployments are written.
var installable = checks{
	nothingAwaited,      // the older version is being replaced, and the InstallPlan is complete
	noRotationPending,   // a certificate rotation continues even if the checks below fail
	rolesPrepared,       // ServiceAccounts, roles and certificates were accepted
	factsComplete,       // all facts were gathered, and the cache shows what this reconcile wrote
	withinAccount,       // the account has the CSV's permissions, or may grant them
	requirementsPresent, // CustomResourceDefinitions, APIServices, ServiceAccounts
}

// healthy contains the checks that must pass for an installed operator.
var healthy = checks{
	nothingWritten,
	requirementsKept,
	certificatesCurrent,
	deploymentsReady,
	callsAnswered,
}

// failing returns the transition of the first check that fails, or nil.
func (c checks) failing(f Facts) *Transition {
	for _, check := range c {
		if t := check(f); t != nil {
			return t
		}
	}
	return nil
}

// unless returns nil if holds is true, and the transition otherwise.
func unless(holds bool, t Transition) *Transition {
	if holds {
		return nil
	}
	return &t
}

// groupSuits reports permissions that exceed the account only in the event, because the contract defines the message.
func groupSuits(f Facts) *Transition {
	if f.Group == nil {
		return nil
	}
	t := to(phaseFailed, f.Group.Reason, f.Group.Message)
	if exceeding := f.exceeding(); len(exceeding) > 0 {
		t.Detail = f.Group.Message + separator + strings.Join(exceeding, separator)
	}
	return &t
}

func strategyValid(f Facts) *Transition {
	return valid(f.Strategy, reasonInvalidStrategy, messageInvalidStrategy)
}

// webhooksValid reports the names of webhooks only in the event if the contract defines the message.
func webhooksValid(f Facts) *Transition {
	t := valid(f.Webhooks, reasonInvalidWebhook, "%s")
	if message := webhook.ContractMessage(f.Webhooks); message != "" {
		t.Message, t.Detail = message, t.Message
	}
	return t
}

func apisValid(f Facts) *Transition { return valid(f.APIs, reasonAPIServiceFailed, "%s") }

func apisUnclaimed(f Facts) *Transition {
	return valid(f.Taken, reasonOwnerConflict, messageNoAdoption+": %s")
}

// kindsUnclaimed reports the names only in the event, because the contract defines the message.
func kindsUnclaimed(f Facts) *Transition {
	t := to(phaseFailed, reasonOwnerConflict, messageKindConflict)
	t.Detail = messageKindConflict + ": " + f.Contested
	return unless(f.Contested == "" || f.CSV.Status.Phase == phaseSucceeded, t)
}

func valid(err error, reason operatorsv1alpha1.ConditionReason, format string) *Transition {
	if err == nil {
		return nil
	}
	return new(to(phaseFailed, reason, fmt.Sprintf(format, summary(err))))
}

func nothingAwaited(f Facts) *Transition { return unless(f.Waits == "", waiting(f)) }

func noRotationPending(f Facts) *Transition {
	return unless(!f.renews(), to(phaseInstallReady, reasonRequirementsMet, messageMet))
}

func rolesPrepared(f Facts) *Transition {
	if f.Prepared == nil {
		return nil
	}
	return new(notMet(summary(f.Prepared)).requeueAfter(recheckAfter(f, f.Prepared)))
}

func factsComplete(f Facts) *Transition { return unless(f.Evaluated && !f.Unsynced, stay(f)) }

func withinAccount(f Facts) *Transition {
	if f.Excess == nil {
		return nil
	}
	return notMet(cmp.Or(strings.TrimPrefix(f.Exceeding, noteExceeds), f.Excess.Error()))
}

func requirementsPresent(f Facts) *Transition {
	return unless(!f.Unmet, to(phasePending, reasonRequirementsNotMet, messageNotMet))
}

func notMet(why string) *Transition {
	return new(to(phasePending, reasonRequirementsNotMet, messageNotMet+": "+why))
}

func nothingWritten(f Facts) *Transition { return unless(!f.Unsynced, stay(f)) }

func requirementsKept(f Facts) *Transition {
	return unless(!f.Unmet, to(phaseFailed, reasonRequirementsNotMet, messageNoLongerMet))
}

func certificatesCurrent(f Facts) *Transition {
	return unless(!f.Rolling || f.Refused != nil, to(phasePending, reasonNeedsCertRotation, messageCertRotation))
}

func deploymentsReady(f Facts) *Transition {
	return unless(f.Deployments.Ready, to(phaseFailed, reasonComponentUnhealthy, fmt.Sprintf(messageInstalling, f.Deployments.Problem)))
}

func callsAnswered(f Facts) *Transition {
	return unless(!f.Calls.Unavailable, to(phaseFailed, reasonAPIServiceIssue, f.Calls.Problem))
}
