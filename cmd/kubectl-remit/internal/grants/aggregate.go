package grants

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// aggregate evaluates aggregationRules as the Kubernetes controller does: a ClusterRole with an aggregationRule gets
// the rules of the ClusterRoles that it selects, which can themselves be aggregated.
func (s store) aggregate() error {
	var all []*rbacv1.ClusterRole
	for _, obj := range s.clusterRoles.List() {
		if role, ok := obj.(*rbacv1.ClusterRole); ok {
			all = append(all, role)
		}
	}
	slices.SortFunc(all, func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	// Each round completes at least one more level, and a cycle of n roles is stable after at most n rounds.
	for range all {
		changed := false
		for _, role := range all {
			if role.AggregationRule == nil {
				continue
			}
			rules, err := selected(role, all)
			if err != nil {
				return fmt.Errorf("ClusterRole %s: %w", role.Name, err)
			}
			if !reflect.DeepEqual(rules, role.Rules) {
				role.Rules, changed = rules, true
			}
		}
		if !changed {
			return nil
		}
	}
	return nil
}

func selected(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	var out []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if other == role || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				if !slices.ContainsFunc(out, func(r rbacv1.PolicyRule) bool { return reflect.DeepEqual(r, rule) }) {
					out = append(out, rule)
				}
			}
		}
	}
	return out, nil
}
