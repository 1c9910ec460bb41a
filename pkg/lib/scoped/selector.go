package scoped

import (
	"fmt"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// MaxSelector is the maximum number of labels, expressions and values in the selector of an OperatorGroup. Each change of a Namespace
// evaluates the selectors of all OperatorGroups, and one of 1.2 MB takes half a second.
const MaxSelector = 500

// Selector returns the selector of an OperatorGroup, or an error if it is invalid or too large.
func Selector(og *operatorsv1.OperatorGroup) (labels.Selector, error) {
	if isLongSelector(og.Spec.Selector) {
		return nil, fmt.Errorf("spec.selector has more than %d labels, expressions and values", MaxSelector)
	}
	return metav1.LabelSelectorAsSelector(og.Spec.Selector)
}

func isLongSelector(s *metav1.LabelSelector) bool {
	if s == nil {
		return false
	}
	n := len(s.MatchLabels) + len(s.MatchExpressions)
	for _, e := range s.MatchExpressions {
		n += len(e.Values)
	}
	return n > MaxSelector
}

// KeptSelector returns the selector that caches keep: the given one or, if it is too large, one that [Selector] refuses for the same
// reason and that matches no namespace.
func KeptSelector(s *metav1.LabelSelector) *metav1.LabelSelector {
	if !isLongSelector(s) {
		return s
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: names.AnnotationTooLarge, Operator: metav1.LabelSelectorOpIn, Values: make([]string, MaxSelector+1),
	}}}
}
