package webhook

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxSelected is the maximum number of namespaces of a live webhook that are examined one by one: as many as an
// OperatorGroup may have as targets. A webhook that selects more is examined as if it selected all namespaces.
const maxSelected = 1000

// Held reports whether a webhook may intercept what a Demand is about, in a namespace or, for "", in the whole cluster.
type Held func(webhook string, d Demand, namespace string) bool

// Cut is a part of the requests that a webhook may not intercept: those in a namespace or, for "", those about
// cluster-scoped objects or in all namespaces.
type Cut struct{ Webhook, Namespace string }

// String describes the Cut in messages.
func (c Cut) String() string {
	if c.Namespace == metav1.NamespaceAll {
		return fmt.Sprintf("webhook %q in the whole cluster", c.Webhook)
	}
	return fmt.Sprintf("webhook %q in namespace %s", c.Webhook, c.Namespace)
}

// Narrow removes from a webhook configuration, which may be live, what its webhooks may not intercept: namespaces in
// which the demand is not held, or the whole webhook. It derives the demand from the configuration itself, because an
// earlier version may have written it. It returns what it removed. A webhook whose rules are too large, as only others can
// make them, is removed.
func Narrow(obj *unstructured.Unstructured, scopes Scopes, held Held) ([]Cut, error) {
	fields, webhooks, err := webhooksOf(obj)
	if err != nil {
		return nil, err
	}
	var cuts []Cut
	left, expanded := []any{}, 0
	for i, w := range webhooks {
		d := &operatorsv1alpha1.WebhookDescription{Type: operatorsv1alpha1.ValidatingAdmissionWebhook, GenerateName: w.Name, Rules: w.Rules}
		if obj.GetKind() == "MutatingWebhookConfiguration" {
			d.Type = operatorsv1alpha1.MutatingAdmissionWebhook
		}
		if expanded += resourcesOf(d); expanded > maxResources {
			cuts = append(cuts, Cut{Webhook: w.Name})
			continue
		}
		cut := narrow(w, d, scopes, held)
		cuts = append(cuts, cut...)
		if len(w.Rules) == 0 {
			continue
		}
		if len(cut) > 0 {
			narrowed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w)
			if err != nil {
				return nil, fmt.Errorf("encode %s %s: %w", obj.GetKind(), obj.GetName(), err)
			}
			fields[i]["rules"], fields[i]["namespaceSelector"] = narrowed["rules"], narrowed["namespaceSelector"]
		}
		left = append(left, fields[i])
	}
	if len(cuts) > 0 {
		obj.Object["webhooks"] = left
	}
	return cuts, nil
}

// webhooksOf returns the webhooks of a configuration, encoded and decoded.
func webhooksOf(obj *unstructured.Unstructured) (fields []map[string]any, webhooks []*admissionregistrationv1.MutatingWebhook, err error) {
	all, _ := obj.Object["webhooks"].([]any)
	for _, one := range all {
		w := &admissionregistrationv1.MutatingWebhook{} // a ValidatingWebhook has the same fields
		encoded, _ := one.(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(encoded, w); err != nil {
			return nil, nil, fmt.Errorf("decode %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		fields, webhooks = append(fields, encoded), append(webhooks, w)
	}
	return fields, webhooks, nil
}

// narrow narrows one webhook. Afterwards, it has no rules if it may intercept nothing.
func narrow(w *admissionregistrationv1.MutatingWebhook, d *operatorsv1alpha1.WebhookDescription, scopes Scopes, held Held) []Cut {
	demand := Intercepts(d, scopes)
	if len(demand.Cluster) > 0 && !held(w.Name, Demand{Cluster: demand.Cluster}, metav1.NamespaceAll) {
		w.Rules = nil
		return []Cut{{Webhook: w.Name}}
	}
	demand.Cluster = nil
	var cuts []Cut
	namespaces, listed := selected(w.NamespaceSelector)
	permitted := slices.DeleteFunc(slices.Clone(namespaces), func(namespace string) bool {
		if held(w.Name, demand, namespace) {
			return false
		}
		cuts = append(cuts, Cut{w.Name, namespace})
		return true
	})
	if len(permitted) == 0 {
		w.Rules = nil
		return cuts
	}
	if listed != nil {
		listed.Values = permitted
	}
	everywhere := func(rules ...rbacv1.PolicyRule) bool {
		return held(w.Name, Demand{Cluster: rules}, metav1.NamespaceAll)
	}
	if reachesFurther(d, scopes, everywhere) {
		w.Rules = bounded(d, scopes, everywhere)
		cuts = append(cuts, Cut{Webhook: w.Name})
	}
	return cuts
}

// reachesFurther reports whether a rule whose resources may be cluster-scoped intercepts such objects although the
// account does not have the permissions for them.
func reachesFurther(d *operatorsv1alpha1.WebhookDescription, scopes Scopes, holds func(...rbacv1.PolicyRule) bool) bool {
	return slices.ContainsFunc(d.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return slices.ContainsFunc(split(rule, scopes), func(p part) bool {
			return p.scope == Either && (reachesAdministrators(p.rule) || !holds(p.demand()...))
		})
	})
}

// selected returns the namespaces that a selector lists by name, and its expression that lists them. If it lists none,
// it returns [""] and nil.
func selected(s *metav1.LabelSelector) ([]string, *metav1.LabelSelectorRequirement) {
	if s != nil {
		for i := range s.MatchExpressions {
			e := &s.MatchExpressions[i]
			if e.Key == corev1.LabelMetadataName && e.Operator == metav1.LabelSelectorOpIn && len(e.Values) <= maxSelected {
				return e.Values, e
			}
		}
	}
	return []string{metav1.NamespaceAll}, nil
}

// Within returns what a live configuration intercepts. With it, Narrow removes from the planned configuration what the
// live one does not intercept.
func Within(live *unstructured.Unstructured) (Held, error) {
	_, webhooks, err := webhooksOf(live)
	if err != nil {
		return nil, err
	}
	reached := map[string][]string{}
	for _, w := range webhooks {
		reached[w.Name], _ = selected(w.NamespaceSelector)
	}
	return func(webhook string, d Demand, namespace string) bool {
		namespaces, called := reached[webhook]
		return called && (len(d.Cluster) > 0 || slices.Contains(namespaces, namespace) || slices.Contains(namespaces, metav1.NamespaceAll))
	}, nil
}
