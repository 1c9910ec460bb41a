package operatorgroup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// Condition types. OLM v0 defines the first two, which are True if there is a problem; the others are specific to
// Remit.
const (
	// MultipleOperatorGroup is True if the namespace has more than one OperatorGroup.
	MultipleOperatorGroup = "MultipleOperatorGroup"
	// OperatorGroupServiceAccount is True if the named ServiceAccount does not exist.
	OperatorGroupServiceAccount = "OperatorGroupServiceAccount"
	// AccountUsable is True if the account exists and Remit is allowed to act as it.
	AccountUsable = "AccountUsable"
	// AccountChanged is True after the named account was deleted and recreated, until the OperatorGroup's spec changes. It is
	// Unknown while the account does not exist.
	AccountChanged = "AccountChanged"
	// TargetsKnown is False if the target namespaces cannot be determined.
	TargetsKnown = "TargetsKnown"
	// TargetNotAllowed is True if the account has not been granted any permissions in a target namespace.
	TargetNotAllowed = "TargetNotAllowed"
	// ProvidedAPIsPublished is False if the annotation with the provided APIs, or one of the ClusterRoles for them, could not
	// be written. Nothing depends on them.
	ProvidedAPIsPublished = "ProvidedAPIsPublished"
	// TargetsLabeled is False if a target namespace could not be labeled. Nothing depends on the labels.
	TargetsLabeled = "TargetsLabeled"
)

// Condition reasons. If AccountUsable is False, its reason is a scoped.Reason.
const (
	ReasonMultiple         = "MultipleOperatorGroupsFound"
	ReasonOnly             = "OnlyOperatorGroup"
	ReasonMissing          = string(scoped.AccountMissing)
	ReasonFound            = "ServiceAccountFound"
	ReasonNotNamed         = "NoServiceAccountNamed"
	ReasonUsable           = "Enrolled"
	ReasonNotEnrolled      = string(scoped.AccountNotEnrolled)
	ReasonSame             = "Unchanged"
	ReasonGone             = "AccountGone"
	ReasonRecreated        = "AccountRecreated"
	ReasonListed           = "NamespacesListed"
	ReasonSelected         = "NamespacesSelected"
	ReasonAll              = "AllNamespaces"
	ReasonInvalidSelector  = "InvalidSelector"
	ReasonTooManyTargets   = string(scoped.TooManyTargets)
	ReasonUndecided        = "Undecided"
	ReasonNoRights         = "AccountHoldsNothing"
	ReasonRights           = "AccountHoldsRights"
	ReasonNoAccountYet     = "NoUsableAccount"
	ReasonPublished        = "Published"
	ReasonLabeled          = "Labeled"
	ReasonNotHeld          = names.ReasonAccountLacksPermissions
	ReasonRefused          = names.ReasonRefusedByAPIServer
	ReasonRefusedByRemit   = names.ReasonRefusedByRemit
	messageMultiple        = "Multiple OperatorGroup found in the same namespace"
	messageAccountNotFound = "ServiceAccount %s not found"
)

// Facts is the input of Desired.
type Facts struct {
	// Group is the OperatorGroup as it was read. Desired uses only the account reference and the condition
	// AccountChanged of its status.
	Group *operatorsv1.OperatorGroup
	// Siblings is the number of other OperatorGroups in the namespace.
	Siblings int
	// Targets contains the target namespaces. If it is empty, InvalidSelector or TooMany may contain the reason.
	Targets         []string
	InvalidSelector error
	TooMany         *scoped.Error
	// WithoutGrants lists the targets in which the account has not been granted any permissions, except the
	// OperatorGroup's namespace.
	WithoutGrants []string
	// Account is set if the account exists. Otherwise, Problem is set.
	Account scoped.Account
	Problem *scoped.Error
	// TooMuch is set if the account has more rules than Remit evaluates.
	TooMuch *scoped.Error
	// Undecided is set if the API server has not decided which namespaces are targets. The reconcile is repeated.
	Undecided *scoped.UndecidedError
	// NotEnrolled contains the users of Remit's programs that are not allowed to request the account's token.
	NotEnrolled []string
	// Published and Labeled are the results of writing the annotation and the ClusterRoles, and the labels of the targets.
	Published, Labeled Outcome
	// Excess describes permissions without a ClusterServiceVersion that exceed the account.
	Excess Excess
}

// Desired returns the status that follows from the facts. It does not change LastUpdated.
func Desired(f Facts) operatorsv1.OperatorGroupStatus {
	out := *f.Group.Status.DeepCopy()
	if f.Undecided == nil {
		out.Namespaces = slices.Clone(f.Targets)
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = f.Group.Generation
		meta.SetStatusCondition(&out.Conditions, c)
	}
	set(multiple(f))
	set(serviceAccount(f))
	set(usable(f))
	set(targets(f))
	set(allowed(f))
	set(written(f, ProvidedAPIsPublished, ReasonPublished, f.Published))
	set(written(f, TargetsLabeled, ReasonLabeled, f.Labeled))
	if c := exceeds(f); c != nil {
		set(*c)
	}
	set(changed(f)) // compares the account with the ServiceAccountRef of the previous status
	out.ServiceAccountRef = reference(f)
	return out
}

// exceeds returns the condition ExceedsAccount, or nil if there was never anything to report.
func exceeds(f Facts) *metav1.Condition {
	before := meta.FindStatusCondition(f.Group.Status.Conditions, names.ConditionExceedsAccount)
	switch {
	case f.Excess.Reason == ReasonRemoved:
		return new(conditionFalse(names.ConditionExceedsAccount, ReasonRemoved, f.Excess.Message))
	case f.Excess.Reason != "":
		return new(conditionTrue(names.ConditionExceedsAccount, f.Excess.Reason, f.Excess.Message))
	case before == nil || before.Reason == ReasonRemoved:
		return before.DeepCopy()
	}
	return new(conditionFalse(names.ConditionExceedsAccount, ReasonWithin, ""))
}

func multiple(f Facts) metav1.Condition {
	if f.Siblings == 0 {
		return conditionFalse(MultipleOperatorGroup, ReasonOnly, "")
	}
	return conditionTrue(MultipleOperatorGroup, ReasonMultiple, messageMultiple)
}

// serviceAccount returns the condition OperatorGroupServiceAccount. As the contract requires, it applies to the account
// that the spec names, not to a default account.
func serviceAccount(f Facts) metav1.Condition {
	switch {
	case f.Group.Spec.ServiceAccountName == "":
		return conditionFalse(OperatorGroupServiceAccount, ReasonNotNamed, "")
	case f.Problem != nil:
		return conditionTrue(OperatorGroupServiceAccount, ReasonMissing, fmt.Sprintf(messageAccountNotFound, f.Group.Spec.ServiceAccountName))
	}
	return conditionFalse(OperatorGroupServiceAccount, ReasonFound, "")
}

func usable(f Facts) metav1.Condition {
	switch problem := cmp.Or(f.Problem, f.TooMuch); {
	case problem != nil:
		return conditionFalse(AccountUsable, string(problem.Reason), problem.Message)
	case len(f.NotEnrolled) > 0:
		return conditionFalse(AccountUsable, ReasonNotEnrolled, enrollHelp(f.Account, f.NotEnrolled))
	case f.Account.Default:
		return conditionTrue(AccountUsable, ReasonUsable, fmt.Sprintf(
			"spec.serviceAccountName is empty: installs act as %s, the installation's default account", f.Account.Key()))
	}
	return conditionTrue(AccountUsable, ReasonUsable, fmt.Sprintf("installs act as ServiceAccount %s", f.Account.Key()))
}

func targets(f Facts) metav1.Condition {
	switch {
	case budget.Refused(f.Group) != nil && f.Problem != nil:
		return conditionFalse(TargetsKnown, ReasonNoAccountYet, f.Problem.Message)
	case f.InvalidSelector != nil:
		return conditionFalse(TargetsKnown, ReasonInvalidSelector, f.InvalidSelector.Error())
	case f.TooMany != nil:
		return conditionFalse(TargetsKnown, ReasonTooManyTargets, f.TooMany.Message)
	case f.Undecided != nil:
		return metav1.Condition{Type: TargetsKnown, Status: metav1.ConditionUnknown, Reason: ReasonUndecided, Message: status.Text(f.Undecided.Error())}
	case len(f.Group.Spec.TargetNamespaces) > 0:
		return conditionTrue(TargetsKnown, ReasonListed, "")
	case slices.Equal(f.Targets, []string{scoped.AllNamespaces}):
		return conditionTrue(TargetsKnown, ReasonAll, "")
	case f.Problem != nil:
		return conditionFalse(TargetsKnown, ReasonNoAccountYet, "spec.selector selects only namespaces that the account is allowed to get, but there is no usable account: "+f.Problem.Message)
	case f.TooMuch != nil && len(f.Targets) == 0:
		return conditionFalse(TargetsKnown, ReasonNoAccountYet, "spec.selector selects no namespaces: "+f.TooMuch.Message)
	}
	return conditionTrue(TargetsKnown, ReasonSelected, fmt.Sprintf("spec.selector selects only namespaces that ServiceAccount %s is allowed to get", f.Account.Key()))
}

// allowed returns the condition TargetNotAllowed. It only informs users: the API server authorizes each write in a
// target namespace.
func allowed(f Facts) metav1.Condition {
	switch {
	case f.Problem != nil || f.TooMuch != nil:
		return metav1.Condition{Type: TargetNotAllowed, Status: metav1.ConditionUnknown, Reason: ReasonNoAccountYet}
	case f.Siblings > 0:
		return metav1.Condition{Type: TargetNotAllowed, Status: metav1.ConditionUnknown, Reason: ReasonMultiple}
	case f.TooMany != nil:
		return metav1.Condition{Type: TargetNotAllowed, Status: metav1.ConditionUnknown, Reason: ReasonTooManyTargets}
	case f.Undecided != nil:
		return metav1.Condition{Type: TargetNotAllowed, Status: metav1.ConditionUnknown, Reason: ReasonUndecided}
	case len(f.WithoutGrants) > 0:
		return conditionTrue(TargetNotAllowed, ReasonNoRights, fmt.Sprintf("ServiceAccount %s has not been granted any permissions in %s: grant permissions there, or remove the namespaces from OperatorGroup %s",
			f.Account.Key(), strings.Join(f.WithoutGrants, ", "), f.Group.Name))
	}
	return conditionFalse(TargetNotAllowed, ReasonRights, "")
}

// maxLines is the maximum size in bytes of the list in a message.
const maxLines = 1000

// written returns a condition about objects that the account writes and that nothing depends on.
func written(f Facts, kind, reason string, o Outcome) metav1.Condition {
	unknown := metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: ReasonNoAccountYet}
	switch {
	case f.Siblings > 0:
		unknown.Reason = ReasonMultiple
		return unknown
	case f.TooMany != nil:
		unknown.Reason = ReasonTooManyTargets
		return unknown
	case f.InvalidSelector != nil:
		unknown.Reason = ReasonInvalidSelector
		return unknown
	case f.Undecided != nil:
		unknown.Reason = ReasonUndecided
		return unknown
	case !f.publishes():
		return unknown
	case len(o.Missing) > 0:
		return conditionFalse(kind, ReasonNotHeld, fmt.Sprintf("ServiceAccount %s is missing permissions that no install needs: %s",
			f.Account.Key(), status.Lines(o.Missing, maxLines)))
	case len(o.Refused) > 0 && !o.ByAPIServer:
		return conditionFalse(kind, ReasonRefusedByRemit, "objects that no install needs were not written: "+status.Lines(o.Refused, maxLines))
	case len(o.Refused) > 0:
		return conditionFalse(kind, ReasonRefused, "the API server refused writes that no install needs: "+status.Lines(o.Refused, maxLines))
	}
	return conditionTrue(kind, reason, "")
}

// changed returns the condition AccountChanged. It depends on the previous status, because the cluster state does not
// show that an account was replaced. A user whose grants no longer apply needs to know, even hours later, that the
// ServiceAccount was recreated. A change to the spec accepts the new ServiceAccount and resets the condition.
func changed(f Facts) metav1.Condition {
	name := f.Group.Spec.ServiceAccountName
	if name == "" {
		return conditionFalse(AccountChanged, ReasonNotNamed, "")
	}
	ref := f.Group.Status.ServiceAccountRef
	if ref != nil && ref.Name != name {
		ref = nil // an earlier spec named the account that the reference identifies
	}
	before := meta.FindStatusCondition(f.Group.Status.Conditions, AccountChanged)
	if before != nil && before.ObservedGeneration != f.Group.Generation {
		before = nil // the spec has changed since the condition was set
	}
	if f.Problem != nil {
		return changedWithout(f, ref, before)
	}
	return changedTo(f.Account, ref, before)
}

// changedWithout returns the condition AccountChanged if the account does not exist or cannot be used.
func changedWithout(f Facts, ref *corev1.ObjectReference, before *metav1.Condition) metav1.Condition {
	switch {
	case f.Problem.Reason == scoped.AccountMissing && ref != nil:
		return metav1.Condition{
			Type: AccountChanged, Status: metav1.ConditionUnknown, Reason: ReasonGone,
			Message: status.Text(fmt.Sprintf("ServiceAccount %s (UID %s) was deleted", ref.Name, ref.UID)),
		}
	case before != nil:
		return *before.DeepCopy()
	}
	return conditionFalse(AccountChanged, ReasonSame, "")
}

// changedTo returns the condition AccountChanged for an existing account.
func changedTo(account scoped.Account, ref *corev1.ObjectReference, before *metav1.Condition) metav1.Condition {
	switch {
	case ref != nil && ref.UID != account.UID, before != nil && before.Reason == ReasonGone:
		return conditionTrue(AccountChanged, ReasonRecreated, fmt.Sprintf("ServiceAccount %s was deleted and recreated (UID %s): "+
			"installed operators continue to run, and unfinished installs resume with the permissions of the new account", account.Name, account.UID))
	case before != nil && before.Status == metav1.ConditionTrue:
		return *before.DeepCopy()
	}
	return conditionFalse(AccountChanged, ReasonSame, "")
}

func reference(f Facts) *corev1.ObjectReference {
	if f.Problem != nil || f.Account.Default {
		return nil
	}
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "ServiceAccount",
		Namespace: f.Account.Namespace, Name: f.Account.Name, UID: f.Account.UID,
	}
}

func conditionTrue(kind, reason, text string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: status.Text(text)}
}

func conditionFalse[S string | message.Text](kind, reason string, text S) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: status.Text(text)}
}
