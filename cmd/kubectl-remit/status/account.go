package status

import (
	"fmt"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/controller/operatorgroup"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Conditions and reasons that Remit sets.
const (
	conditionMultiple = operatorgroup.MultipleOperatorGroup
	conditionTargets  = operatorgroup.TargetsKnown
	conditionUsable   = operatorgroup.AccountUsable
	conditionChanged  = operatorgroup.AccountChanged
	reasonSuperseded  = names.ReasonSuperseded
)

// account returns the state of a group's account.
func (w *world) account(og *operatorsv1.OperatorGroup, remitNamespace string) Account {
	out := Account{Usable: Unknown, Message: "Remit has not reconciled the OperatorGroup yet"}
	if c := meta.FindStatusCondition(og.Status.Conditions, conditionUsable); c != nil && c.ObservedGeneration == og.Generation {
		out.Message = c.Message
		switch c.Status {
		case metav1.ConditionTrue:
			out.Usable = Yes
		case metav1.ConditionFalse:
			out.Usable = No
		}
	}
	key := types.NamespacedName{Namespace: og.Namespace, Name: og.Spec.ServiceAccountName}
	if key.Name == "" {
		out.Default = out.Usable == Yes
		return out
	}
	out.Name = key.String()
	out.Exists = w.accounts[key]
	out.Enrolled = w.enrolled(key, remitNamespace)
	if c := meta.FindStatusCondition(og.Status.Conditions, conditionChanged); c != nil && c.Status == metav1.ConditionTrue {
		out.Message = fmt.Sprintf("%s. %s", out.Message, c.Message)
	}
	return out
}

// enrolled reports whether the programs catalog and olm are both allowed to request tokens for the account. It returns
// Unknown if RBAC could not be read.
func (w *world) enrolled(account types.NamespacedName, remitNamespace string) Answer {
	if w.rbac == nil {
		return Unknown
	}
	for _, program := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM} {
		ok, err := w.rbac.CanRequestToken(rbac.ServiceAccount(remitNamespace, program), account)
		switch {
		case err != nil:
			return Unknown
		case !ok:
			return No
		}
	}
	return Yes
}

func isName(name string) bool { return len(validation.ValidateServiceAccountName(name, false)) == 0 }
