package scoped

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AllNamespaces is the only target of an OperatorGroup that targets every namespace.
const AllNamespaces = metav1.NamespaceAll

// MaxTargets is the maximum number of target namespaces of an OperatorGroup. The number is limited because each target
// is evaluated and cached for each operator. All namespaces together count as one target.
const MaxTargets = 1000

// NamespaceFilter reports which namespaces an account is allowed to get. preflight.NamespaceFilter implements it.
type NamespaceFilter interface {
	// Gettable returns those of the namespaces that the account is allowed to get, in the given order.
	Gettable(ctx context.Context, account Account, namespaces []string) ([]string, error)
}

// Targets returns the target namespaces according to an OperatorGroup's spec: the listed namespaces if there are any;
// otherwise, those that its selector matches and its account is allowed to get; or [AllNamespaces] if it has neither a
// list nor a selector. They are sorted and unique. Listed namespaces need not exist. If the selector matches no
// namespace, the result is empty. The error is an *Error if there are more than MaxTargets targets, if there is a
// selector but no usable account (docs/adr/0030), or if a part of the OperatorGroup is missing.
func (l Lookup) Targets(ctx context.Context, og *operatorsv1.OperatorGroup, filter NamespaceFilter) ([]string, error) {
	if err := checkComplete(og); err != nil {
		return nil, err
	}
	if len(og.Spec.TargetNamespaces) > MaxTargets {
		return nil, tooManyTargets(og, "lists")
	}
	if TargetsAll(og) {
		return []string{AllNamespaces}, nil
	}
	if len(og.Spec.TargetNamespaces) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(og.Spec.TargetNamespaces))), nil
	}
	matching, err := l.matching(ctx, og)
	if err != nil {
		return nil, err
	}
	account, err := l.AccountOf(ctx, og)
	if err != nil {
		return nil, err
	}
	targets, err := filter.Gettable(ctx, account, matching)
	if err != nil {
		return nil, fmt.Errorf("evaluate the selector of OperatorGroup %s/%s: %w", og.Namespace, og.Name, err)
	}
	if len(targets) > MaxTargets {
		return nil, tooManyTargets(og, "selects")
	}
	return targets, nil
}

// TargetsAll reports whether an OperatorGroup targets all namespaces: it lists [AllNamespaces], or has neither a list nor a selector.
func TargetsAll(og *operatorsv1.OperatorGroup) bool {
	if len(og.Spec.TargetNamespaces) > 0 {
		return slices.Contains(og.Spec.TargetNamespaces, AllNamespaces)
	}
	return og.Spec.Selector == nil || isEmptySelector(og.Spec.Selector)
}

// tooManyTargets does not contain the number of targets, because caches do not keep all of them (KeptTargets).
func tooManyTargets(og *operatorsv1.OperatorGroup, does string) *Error {
	return problem(og, TooManyTargets, fmt.Sprintf("OperatorGroup %s/%s %s too many target namespaces, the limit is %d: nothing will be "+
		"installed in its namespace. Use fewer target namespaces, or all namespaces (neither spec.targetNamespaces nor spec.selector)", og.Namespace, og.Name, does, MaxTargets))
}

// maxTargetName is the number of bytes of a target that KeptTargets keeps. No Namespace has such a long name.
const maxTargetName = 64

// KeptTargets returns the listed targets of an OperatorGroup that caches keep: all of them or, if there are more than MaxTargets,
// enough for [Lookup.Targets] to refuse them. [AllNamespaces] is kept, so that [TargetsAll] returns the same.
func KeptTargets(targets []string) []string {
	if len(targets) <= MaxTargets {
		return targets
	}
	kept := make([]string, 0, MaxTargets+1)
	if slices.Contains(targets, AllNamespaces) {
		kept = append(kept, AllNamespaces)
	}
	for _, name := range targets[:MaxTargets+1-len(kept)] {
		kept = append(kept, strings.Clone(name[:min(len(name), maxTargetName)]))
	}
	return kept
}

// matching lists the namespaces that the OperatorGroup's selector matches, whether or not the account is allowed to get them.
func (l Lookup) matching(ctx context.Context, og *operatorsv1.OperatorGroup) ([]string, error) {
	selector, err := Selector(og)
	if err != nil {
		return nil, fmt.Errorf("evaluate the selector of OperatorGroup %s/%s: %w", og.Namespace, og.Name, err)
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

// NoTargets returns the message for an OperatorGroup whose selector selects no namespace. The message does not reveal
// whether the selector matches namespaces that the account is not allowed to get.
func NoTargets(og *operatorsv1.OperatorGroup, account Account) string {
	return fmt.Sprintf("OperatorGroup %s/%s selects no namespaces: spec.selector matches no namespace that ServiceAccount %s is allowed to get",
		og.Namespace, og.Name, account.Key())
}

func isEmptySelector(s *metav1.LabelSelector) bool {
	return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}
