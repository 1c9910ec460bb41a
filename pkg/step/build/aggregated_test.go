package build_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/env/proofs"
)

// aggregating returns a ClusterRole that aggregates the ClusterRoles that the selector selects.
func aggregating(name string, selector metav1.LabelSelector) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:        metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta:      metav1.ObjectMeta{Name: name},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{selector}},
	}
}

func requires(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

// The cluster's own selectors determine which labels of a ClusterRole grant its rules to others.
func TestDropsLabelsByWhichOthersAggregate(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "own"}, CSV: "op.v1", Proofs: proofs.Keys()}
	own := aggregating("own", metav1.LabelSelector{MatchLabels: map[string]string{"example.com/to-own": "true"}})
	proofs.Mark(own, owner)
	cached := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, role := range []*rbacv1.ClusterRole{
		own,
		aggregating("by-label", metav1.LabelSelector{MatchLabels: map[string]string{"kubevirt.example.com/to-admin": "true"}}),
		aggregating("by-value", requires("tier", metav1.LabelSelectorOpIn, "a")),
		aggregating("by-key", requires("any", metav1.LabelSelectorOpExists)),
		aggregating("without", requires("kept", metav1.LabelSelectorOpDoesNotExist)),
		aggregating("remits", metav1.LabelSelector{MatchLabels: map[string]string{names.LabelManaged: "true", names.LabelPermissionsHash: "x"}}),
		{ObjectMeta: metav1.ObjectMeta{Name: "plain", Labels: map[string]string{"kept": "x"}}},
	} {
		require.NoError(t, cached.Add(role))
	}
	labels := func() map[string]string {
		return map[string]string{
			"example.com/to-own": "true", "kubevirt.example.com/to-admin": "true", "tier": "b", "any": "x", "kept": "x",
			names.LabelManaged: "true", names.LabelLineage: owner.Mark(), names.LabelPermissionsHash: "x",
		}
	}
	steps := make([]step.Step, 0, 2)
	for _, kind := range []string{"ClusterRole", "ConfigMap"} {
		obj := &unstructured.Unstructured{}
		obj.SetKind(kind)
		obj.SetLabels(labels())
		steps = append(steps, step.Step{Object: obj, Owner: owner, Dropped: []string{"kubernetes.io/x"}})
	}
	require.NoError(t, build.DropAggregated(steps, rbacv1listers.NewClusterRoleLister(cached)))

	require.Equal(t, map[string]string{
		"example.com/to-own": "true", "kept": "x", names.LabelManaged: "true", names.LabelLineage: owner.Mark(), names.LabelPermissionsHash: "x",
	}, steps[0].Object.GetLabels())
	require.Equal(t, []string{"any", "kubernetes.io/x", "kubevirt.example.com/to-admin", "tier"}, steps[0].Dropped)
	require.Equal(t, labels(), steps[1].Object.GetLabels(), "only ClusterRoles are aggregated")
}
