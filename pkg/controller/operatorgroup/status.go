package operatorgroup

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// Facts are what the status is derived from.
type Facts struct {
	// Group is as it was read; of its status, only what is known of the account before is input.
	Group *operatorsv1.OperatorGroup
	// Siblings is the number of other OperatorGroups in the namespace.
	Siblings int
	// Targets are the target namespaces, or InvalidSelector or TooMany says why there are none.
	Targets         []string
	InvalidSelector error
	TooMany         *scoped.Error
	// Barren are the targets, beside the own namespace, in which the account holds nothing.
	Barren []string
	// Account is set where there is one; otherwise Problem says why there is none.
	Account scoped.Account
	Problem *scoped.Error
	// TooMuch says that the account holds more than is looked at.
	TooMuch *scoped.Error
	// NotEnrolled are the users of Remit's programs that may not request the account's token.
	NotEnrolled []string
}

// Desired is the status that the facts come to. LastUpdated is as it was.
func Desired(f Facts) operatorsv1.OperatorGroupStatus {
	out := *f.Group.Status.DeepCopy()
	out.Namespaces = slices.Clone(f.Targets)
	set := func(c metav1.Condition) {
		c.ObservedGeneration = f.Group.Generation
		c.Message = status.Text(c.Message)
		meta.SetStatusCondition(&out.Conditions, c)
	}
	set(multiple(f))
	set(serviceAccount(f))
	set(usable(f))
	set(targets(f))
	set(allowed(f))
	set(changed(f)) // looks at the reference as it was
	out.ServiceAccountRef = reference(f)
	return out
}

func multiple(f Facts) metav1.Condition {
	if f.Siblings == 0 {
		return no(MultipleOperatorGroup, ReasonOnly, "")
	}
	return yes(MultipleOperatorGroup, ReasonMultiple, messageMultiple)
}

// serviceAccount keeps the contract: it speaks of the account that the spec names, not of a default.
func serviceAccount(f Facts) metav1.Condition {
	switch {
	case f.Group.Spec.ServiceAccountName == "":
		return no(OperatorGroupServiceAccount, ReasonNotNamed, "")
	case f.Problem != nil:
		return yes(OperatorGroupServiceAccount, ReasonMissing, fmt.Sprintf(messageAccountNotFound, f.Group.Spec.ServiceAccountName))
	}
	return no(OperatorGroupServiceAccount, ReasonFound, "")
}

func usable(f Facts) metav1.Condition {
	switch {
	case f.Problem != nil:
		return no(AccountUsable, string(f.Problem.Reason), f.Problem.Message)
	case f.TooMuch != nil:
		return no(AccountUsable, ReasonTooMuch, f.TooMuch.Message)
	case len(f.NotEnrolled) > 0:
		return no(AccountUsable, ReasonNotEnrolled, enrollHelp(f.Account, f.NotEnrolled))
	case f.Account.Default:
		return yes(AccountUsable, ReasonUsable, fmt.Sprintf(
			"spec.serviceAccountName is empty: installs act as %s, the installation's default account", f.Account.Key()))
	}
	return yes(AccountUsable, ReasonUsable, fmt.Sprintf("installs act as ServiceAccount %s", f.Account.Key()))
}

func targets(f Facts) metav1.Condition {
	switch {
	case f.InvalidSelector != nil:
		return no(TargetsKnown, ReasonInvalidSelector, f.InvalidSelector.Error())
	case f.TooMany != nil:
		return no(TargetsKnown, ReasonTooManyTargets, f.TooMany.Message)
	case len(f.Group.Spec.TargetNamespaces) > 0:
		return yes(TargetsKnown, ReasonListed, "")
	case slices.Equal(f.Targets, []string{scoped.AllNamespaces}):
		return yes(TargetsKnown, ReasonAll, "")
	case f.Problem != nil:
		return no(TargetsKnown, ReasonNoAccountYet, "spec.selector selects no namespaces, as there is no account that may get any: "+f.Problem.Message)
	case f.TooMuch != nil && len(f.Targets) == 0:
		return no(TargetsKnown, ReasonNoAccountYet, "spec.selector selects no namespaces: "+f.TooMuch.Message)
	}
	return yes(TargetsKnown, ReasonSelected, fmt.Sprintf("only namespaces that ServiceAccount %s may get are selected", f.Account.Key()))
}

// allowed is for people only: what an account may do in a target the API server says at each write.
func allowed(f Facts) metav1.Condition {
	switch {
	case f.Problem != nil || f.TooMuch != nil:
		return metav1.Condition{Type: TargetNotAllowed, Status: metav1.ConditionUnknown, Reason: ReasonNoAccountYet}
	case f.Siblings > 0:
		return metav1.Condition{Type: TargetNotAllowed, Status: metav1.ConditionUnknown, Reason: ReasonMultiple}
	case f.TooMany != nil:
		return metav1.Condition{Type: TargetNotAllowed, Status: metav1.ConditionUnknown, Reason: ReasonTooManyTargets}
	case len(f.Barren) > 0:
		return yes(TargetNotAllowed, ReasonNoRights, fmt.Sprintf("ServiceAccount %s holds nothing in %s: nothing can be installed for %s there",
			f.Account.Key(), strings.Join(f.Barren, ", "), f.Group.Name))
	}
	return no(TargetNotAllowed, ReasonRights, "")
}

// changed is the one condition that remembers: that an account was replaced cannot be read off the
// world afterwards. A person who sees a grant vanish needs to learn that the ServiceAccount is another
// one, even hours later; changing the spec, which is how one vouches for the new one, clears it.
func changed(f Facts) metav1.Condition {
	name := f.Group.Spec.ServiceAccountName
	if name == "" {
		return no(AccountChanged, ReasonNotNamed, "")
	}
	ref := f.Group.Status.ServiceAccountRef
	if ref != nil && ref.Name != name {
		ref = nil // another account was named then
	}
	before := meta.FindStatusCondition(f.Group.Status.Conditions, AccountChanged)
	if before != nil && before.ObservedGeneration != f.Group.Generation {
		before = nil // the spec was changed since
	}
	if f.Problem != nil {
		return changedWithout(f, ref, before)
	}
	return changedTo(f.Account, ref, before)
}

// changedWithout is for an account that cannot be looked at.
func changedWithout(f Facts, ref *corev1.ObjectReference, before *metav1.Condition) metav1.Condition {
	switch {
	case f.Problem.Reason == scoped.AccountMissing && ref != nil:
		return metav1.Condition{
			Type: AccountChanged, Status: metav1.ConditionUnknown, Reason: ReasonGone,
			Message: fmt.Sprintf("ServiceAccount %s (UID %s) was deleted", ref.Name, ref.UID),
		}
	case before != nil:
		return *before.DeepCopy()
	}
	return no(AccountChanged, ReasonSame, "")
}

// changedTo is for an account that is there.
func changedTo(account scoped.Account, ref *corev1.ObjectReference, before *metav1.Condition) metav1.Condition {
	switch {
	case ref != nil && ref.UID != account.UID, before != nil && before.Reason == ReasonGone:
		return yes(AccountChanged, ReasonRecreated, fmt.Sprintf("ServiceAccount %s was deleted and created again (UID %s): "+
			"what is installed stays, and installs restart under the new account with the rights that it is given", account.Name, account.UID))
	case before != nil && before.Status == metav1.ConditionTrue:
		return *before.DeepCopy()
	}
	return no(AccountChanged, ReasonSame, "")
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

func yes(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
