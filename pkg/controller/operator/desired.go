package operator

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// Limits of a status. Users choose names, and operators choose the number of objects and the texts of conditions.
const (
	// maxRefs is the maximum number of references.
	maxRefs = 200
	// maxConditions is the maximum number of conditions of a reference.
	maxConditions = 10
	// maxMessage and maxWord are the maximum sizes, in bytes, of a message and of a type or reason.
	maxMessage = 256
	maxWord    = 128
	// maxTexts is the maximum size, in bytes, of the texts of all conditions. References beyond this size are listed without
	// conditions.
	maxTexts = 64 << 10
)

// component is an object that belongs to an operator.
type component struct {
	ref        corev1.ObjectReference
	conditions []operatorsv1.Condition
}

// operator is a package in a namespace, with its components.
type operator struct {
	ownerutil.Lineage
	components []component
}

// name returns the name of the Operator. A namespace's name contains no dots, so two operators never have the same name.
func (o operator) name() string { return operatorName(o.Package, o.Namespace) }

// isBegun reports whether anything was installed.
func (o operator) isBegun() bool {
	return slices.ContainsFunc(o.components, func(c component) bool {
		return c.ref.Kind != operatorsv1alpha1.SubscriptionKind && c.ref.Kind != operatorsv1alpha1.InstallPlanKind
	})
}

func operatorName(pkg, namespace string) string { return pkg + "." + namespace }

// namespaceOf returns the namespace in the name of an Operator, or "" if there is none.
func namespaceOf(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return ""
	}
	return name[i+1:]
}

// isNameable reports whether the package can have an Operator: the name must be valid.
func isNameable(pkg, namespace string) bool {
	return pkg != "" && len(validation.IsDNS1123Subdomain(operatorName(pkg, namespace))) == 0
}

// ranks lists the kinds of components that are kept if there are too many components, the most important one first.
var ranks = []string{"Subscription", "ClusterServiceVersion", "InstallPlan", "OperatorCondition", "Deployment", "CustomResourceDefinition"}

func rank(c component) int {
	if i := slices.Index(ranks, c.ref.Kind); i >= 0 {
		return i
	}
	return len(ranks)
}

func compare(a, b component) int {
	return cmp.Or(cmp.Compare(a.ref.Kind, b.ref.Kind), cmp.Compare(a.ref.APIVersion, b.ref.APIVersion),
		cmp.Compare(a.ref.Namespace, b.ref.Namespace), cmp.Compare(a.ref.Name, b.ref.Name))
}

// desiredStatus returns the status of an Operator. The references are sorted.
func desiredStatus(op operator) operatorsv1.OperatorStatus {
	all := slices.Clone(op.components)
	slices.SortFunc(all, func(a, b component) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), compare(a, b)) })
	all = all[:min(len(all), maxRefs)]
	texts := 0
	refs := make([]operatorsv1.RichReference, 0, len(all))
	for _, c := range all {
		conditions := bounded(c.conditions)
		if texts += size(conditions); texts > maxTexts {
			conditions = nil
		}
		refs = append(refs, operatorsv1.RichReference{ObjectReference: &c.ref, Conditions: conditions})
	}
	slices.SortFunc(refs, func(a, b operatorsv1.RichReference) int {
		return compare(component{ref: *a.ObjectReference}, component{ref: *b.ObjectReference})
	})
	return operatorsv1.OperatorStatus{Components: &operatorsv1.Components{
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: op.ComponentLabel(), Operator: metav1.LabelSelectorOpExists},
		}},
		Refs: refs,
	}}
}

// bounded returns the conditions that have a type and a status, within the limits.
func bounded(in []operatorsv1.Condition) []operatorsv1.Condition {
	var out []operatorsv1.Condition
	for _, c := range in {
		if c.Type == "" || c.Status == "" || len(out) == maxConditions {
			continue
		}
		c.Type = operatorsv1.ConditionType(status.Cut(status.Clean(string(c.Type)), maxWord))
		c.Status = corev1.ConditionStatus(status.Cut(status.Clean(string(c.Status)), maxWord))
		c.Reason = status.Cut(status.Clean(c.Reason), maxWord)
		c.LastUpdateTime, c.LastTransitionTime = known(c.LastUpdateTime), known(c.LastTransitionTime)
		c.Message = status.Text(status.Cut(status.Clean(c.Message), maxMessage))
		out = append(out, c)
	}
	return out
}

func size(conditions []operatorsv1.Condition) int {
	n := 0
	for _, c := range conditions {
		n += len(c.Type) + len(c.Status) + len(c.Reason) + len(c.Message)
	}
	return n
}

// fingerprint returns a hash of a status without the times at which conditions were last probed.
func fingerprint(s operatorsv1.OperatorStatus) string {
	text, _ := json.Marshal(withoutProbes(s)) // the types contain only what JSON can represent
	return ownerutil.Commitment(string(text))
}

func withoutProbes(s operatorsv1.OperatorStatus) operatorsv1.OperatorStatus {
	out := *s.DeepCopy()
	if out.Components == nil {
		return out
	}
	for i := range out.Components.Refs {
		for k := range out.Components.Refs[i].Conditions {
			out.Components.Refs[i].Conditions[k].LastUpdateTime = nil
		}
	}
	return out
}
