package build

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step"
)

// DropAggregated removes from the ClusterRoles of an install the labels by which other ClusterRoles in the cluster
// aggregate rules, and adds their keys to Dropped. Otherwise, a bundle would grant its rules to everyone who is bound to
// the roles of an administrator or of another tenant (docs/adr/0029). The ClusterRoles of an install may aggregate each
// other. roles is a cache of the cluster's ClusterRoles.
func DropAggregated(steps []step.Step, roles rbacv1listers.ClusterRoleLister) error {
	if !slices.ContainsFunc(steps, func(s step.Step) bool { return len(bundleLabels(s)) > 0 }) {
		return nil
	}
	all, err := roles.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list ClusterRoles: %w", err)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(role *rbacv1.ClusterRole) bool { return role.AggregationRule == nil })
	for i := range steps {
		drop(&steps[i], selectedKeys(steps[i], all))
	}
	return nil
}

// bundleLabels returns the keys of the labels that a ClusterRole has from its bundle; nil for other objects.
func bundleLabels(s step.Step) []string {
	if s.Object.GetKind() != "ClusterRole" {
		return nil
	}
	remits := s.Owner.Labels()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Object.GetLabels())), func(key string) bool {
		_, isRemits := remits[key]
		return isRemits || key == names.LabelPermissionsHash
	})
}

// selectedKeys returns the label keys that the selectors of aggregating ClusterRoles require, except those that belong to
// the install of the step.
func selectedKeys(s step.Step, aggregating []*rbacv1.ClusterRole) sets.Set[string] {
	keys := sets.Set[string]{}
	for _, role := range aggregating {
		if s.Owner.Owns(role) {
			continue
		}
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			keys.Insert(slices.Collect(maps.Keys(selector.MatchLabels))...)
			for _, r := range selector.MatchExpressions {
				if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists {
					keys.Insert(r.Key)
				}
			}
		}
	}
	return keys
}

// drop removes the labels with these keys that the step's object has from its bundle.
func drop(s *step.Step, keys sets.Set[string]) {
	kept := s.Object.GetLabels()
	var dropped []string
	for _, key := range bundleLabels(*s) {
		if keys.Has(key) {
			delete(kept, key)
			dropped = append(dropped, key)
		}
	}
	if len(dropped) == 0 {
		return
	}
	s.Object.SetLabels(kept)
	s.Dropped = append(slices.Clone(s.Dropped), dropped...)
	slices.Sort(s.Dropped)
}
