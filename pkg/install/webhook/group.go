package webhook

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group is what the OperatorGroup says about the reach of its operators.
type Group struct {
	// Bounded is a group whose account was named, by its author.
	Bounded bool
	// Targets are its namespaces, or [""] for all of them.
	Targets []string
	// Spared are namespaces that an operator of a bounded group with all namespaces does not reach, besides
	// those that the cluster lives by: Remit's own.
	Spared []string
}

// systemNamespaces are those that a cluster lives by: a webhook that fails there may stop it from healing.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// reachesNothing says that there is no namespace left to reach.
func (g Group) reachesNothing() bool { return len(g.Targets) == 0 }

// namespaces is the selector of the group's webhooks (security model, "Bounds, object by object").
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
	values = slices.Clone(values)
	slices.Sort(values)
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: op, Values: slices.Compact(values),
	}}}
}
