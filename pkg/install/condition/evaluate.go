package condition

import (
	"cmp"
	"fmt"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/status"
)

const (
	// MaxConditions is the maximum number of conditions that are copied to the status.
	MaxConditions = 20
	// maxMessage is the maximum length, in bytes, of a message in the status.
	maxMessage = 4 << 10
	// maxReason is the maximum length, in bytes, of a condition's message that is included in the status of a
	// ClusterServiceVersion.
	maxReason = 1 << 10
)

// HeldBack returns the reason why an OperatorCondition does not allow its operator to be upgraded, or "" if it does. An
// override takes precedence over what the operator reports. Without an override, the status must have been written for
// the current spec.
func HeldBack(c *operatorsv2.OperatorCondition) string {
	if override := meta.FindStatusCondition(c.Spec.Overrides, operatorsv2.Upgradeable); override != nil {
		return reasonOf(override)
	}
	if err := budget.Refused(c); err != nil { // what the operator reports is unknown
		return status.Cut(status.OneLine(err.Error()), maxReason)
	}
	reported := meta.FindStatusCondition(c.Spec.Conditions, operatorsv2.Upgradeable)
	observed := meta.FindStatusCondition(c.Status.Conditions, operatorsv2.Upgradeable)
	switch {
	case observed == nil && reported == nil:
		return ""
	case observed == nil:
		return outdated(metav1.ConditionUnknown)
	case observed.ObservedGeneration < c.Generation && observed.Status != metav1.ConditionFalse:
		return outdated(observed.Status)
	}
	return reasonOf(observed)
}

func outdated(status metav1.ConditionStatus) string {
	return fmt.Sprintf("the operatorcondition status %q=%q is outdated", operatorsv2.Upgradeable, status)
}

// reasonOf returns the message of a condition that is False, and "" for any other condition.
func reasonOf(c *metav1.Condition) string {
	if c.Status != metav1.ConditionFalse {
		return ""
	}
	why := cmp.Or(status.OneLine(c.Message), c.Reason, "the condition Upgradeable is False")
	return status.Cut(why, maxReason)
}

// Kept returns the conditions of an OperatorCondition's spec that caches keep: those that HeldBack and Observed use, and one more
// than MaxConditions if there are more.
func Kept(all []metav1.Condition) []metav1.Condition {
	if len(all) <= MaxConditions {
		return all
	}
	var out []metav1.Condition
	for i := range all {
		isFirst := meta.FindStatusCondition(out, all[i].Type) == nil
		if isFirst && (len(out) <= MaxConditions || all[i].Type == operatorsv2.Upgradeable) {
			out = append(out, all[i])
		}
	}
	return out
}

// Observed returns the conditions of the status: those of the spec, for its current generation. If several conditions have
// the same type, it returns only the first. It returns at most MaxConditions and never omits Upgradeable.
func Observed(c *operatorsv2.OperatorCondition) []metav1.Condition {
	var out []metav1.Condition
	for i := range c.Spec.Conditions {
		if observed := c.Spec.Conditions[i]; meta.FindStatusCondition(out, observed.Type) == nil {
			observed.ObservedGeneration = c.Generation
			observed.Message = status.Text(status.Cut(status.Clean(observed.Message), maxMessage))
			out = append(out, observed)
		}
	}
	if len(out) <= MaxConditions {
		return out
	}
	kept := out[:MaxConditions]
	if upgradeable := meta.FindStatusCondition(out, operatorsv2.Upgradeable); meta.FindStatusCondition(kept, operatorsv2.Upgradeable) == nil && upgradeable != nil {
		kept[MaxConditions-1] = *upgradeable
	}
	return kept
}
