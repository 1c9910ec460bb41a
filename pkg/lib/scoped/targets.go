package scoped

import (
	"context"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AllNamespaces is the one target of an OperatorGroup that selects every namespace.
const AllNamespaces = metav1.NamespaceAll

// Targets returns the target namespaces of an OperatorGroup from its spec, never from its status:
// the listed ones (which win), those that its selector matches, or [AllNamespaces] where it has
// neither. They are sorted and without repetition. Listed namespaces that do not exist are returned
// too. The result is empty where a selector matches nothing.
func Targets(ctx context.Context, r client.Reader, og *operatorsv1.OperatorGroup) ([]string, error) {
	if len(og.Spec.TargetNamespaces) > 0 {
		targets := slices.Clone(og.Spec.TargetNamespaces)
		slices.Sort(targets)
		targets = slices.Compact(targets)
		if slices.Contains(targets, AllNamespaces) {
			return []string{AllNamespaces}, nil
		}
		return targets, nil
	}
	if og.Spec.Selector == nil || isEmptySelector(og.Spec.Selector) {
		return []string{AllNamespaces}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(og.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of OperatorGroup %s/%s: %w", og.Namespace, og.Name, err)
	}
	list := &corev1.NamespaceList{}
	if err := r.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	targets := make([]string, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			targets = append(targets, list.Items[i].Name)
		}
	}
	slices.Sort(targets)
	return targets, nil
}

func isEmptySelector(s *metav1.LabelSelector) bool {
	return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}
