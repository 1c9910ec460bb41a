package webhook

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group describes which namespaces the webhooks of an OperatorGroup cover.
type Group struct {
	// Bounded is true if the OperatorGroup names its account.
	Bounded bool
	// Targets are the target namespaces of the OperatorGroup, or [""] for all namespaces.
	Targets []string
	// Spared lists Remit's own namespaces. If a bounded group targets all namespaces, its webhooks cover neither these
	// nor the system namespaces.
	Spared []string
}

// systemNamespaces lists the namespaces that a cluster depends on. A webhook that fails for requests in these
// namespaces can prevent the cluster from recovering.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// reachesNothing reports whether the group has no target namespaces.
func (g Group) reachesNothing() bool { return len(g.Targets) == 0 }

// namespaces returns the namespace selector of the group's webhooks (docs/adr/0013).
func (g Group) namespaces() *metav1.LabelSelector {
	all := slices.Contains(g.Targets, metav1.NamespaceAll)
	switch {
	case g.Bounded && all:
		return byName(metav1.LabelSelectorOpNotIn, append(slices.Clone(systemNamespaces), g.Spared...))
	case all:
		return nil
	}
	return byName(metav1.LabelSelectorOpIn, g.Targets)
}

func byName(op metav1.LabelSelectorOperator, values []string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: op, Values: slices.Compact(slices.Sorted(slices.Values(values))),
	}}}
}
