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

// MaxTargets is the number of namespaces that an OperatorGroup may have as targets. Each is looked at and remembered for each of
// the operators. All namespaces are one target.
const MaxTargets = 1000

// Sight tells which namespaces an account may get; preflight.Sight does.
type Sight interface {
	// Gettable returns, in their order, those of the namespaces that the account may get.
	Gettable(ctx context.Context, account Account, namespaces []string) ([]string, error)
}

// Targets returns the target namespaces of an OperatorGroup from its spec, never from its status:
// the listed ones (which win), those that its selector matches and its account may get, or
// [AllNamespaces] where it has neither. They are sorted and without repetition. Listed namespaces that do
// not exist are returned too. The result is empty where a selector selects nothing. The error is an *Error
// where there are more than MaxTargets, or a selector and no account (docs/adr/0030).
func (l Lookup) Targets(ctx context.Context, og *operatorsv1.OperatorGroup, sight Sight) ([]string, error) {
	if n := len(og.Spec.TargetNamespaces); n > MaxTargets {
		return nil, tooManyTargets(og, "lists", n)
	}
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
	matching, err := l.matching(ctx, og)
	if err != nil {
		return nil, err
	}
	account, err := l.AccountOf(ctx, og)
	if err != nil {
		return nil, err
	}
	targets, err := sight.Gettable(ctx, account, matching)
	if err != nil {
		return nil, fmt.Errorf("selector of OperatorGroup %s/%s: %w", og.Namespace, og.Name, err)
	}
	if len(targets) > MaxTargets {
		return nil, tooManyTargets(og, "selects", len(targets))
	}
	return targets, nil
}

func tooManyTargets(og *operatorsv1.OperatorGroup, does string, n int) *Error {
	return problem(og, TooManyTargets, fmt.Sprintf("OperatorGroup %s/%s %s %d target namespaces, and the limit is %d: nothing is "+
		"installed for it; use fewer, or all namespaces (no targetNamespaces and no selector)", og.Namespace, og.Name, does, n, MaxTargets))
}

// matching lists the namespaces that the OperatorGroup's selector matches, whoever may get them.
func (l Lookup) matching(ctx context.Context, og *operatorsv1.OperatorGroup) ([]string, error) {
	selector, err := metav1.LabelSelectorAsSelector(og.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of OperatorGroup %s/%s: %w", og.Namespace, og.Name, err)
	}
	list := &corev1.NamespaceList{}
	if err := l.Reader.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	out := make([]string, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out = append(out, list.Items[i].Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// NoTargets says that an OperatorGroup's selector selects no namespace. It does not say whether it matches some that the
// account may not get.
func NoTargets(og *operatorsv1.OperatorGroup, account Account) string {
	return fmt.Sprintf("OperatorGroup %s/%s selects no namespaces: spec.selector matches none that ServiceAccount %s may get",
		og.Namespace, og.Name, account.Key())
}

func isEmptySelector(s *metav1.LabelSelector) bool {
	return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}
