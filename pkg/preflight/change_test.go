package preflight

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func versioned(name string, namespaced, cluster []rbacv1.PolicyRule) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
	strategy := &csv.Spec.InstallStrategy.StrategySpec
	strategy.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: namespaced}}
	strategy.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: cluster}}
	return csv
}

func reads(resources ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get"}}}
}

func TestListsGainedAndLostPermissionsOfAVersion(t *testing.T) {
	v1, v2 := versioned("op.v1", reads("pods", "nodes"), nil), versioned("op.v2", reads("pods", "secrets"), reads("nodes"))
	got := ChangesOf(v1, v2, "ns", []string{"ns"})
	require.Equal(t, []Change{
		{From: "op.v1", To: "op.v2", Namespace: "", Added: reads("nodes")},
		{From: "op.v1", To: "op.v2", Namespace: "ns", Added: reads("secrets"), Removed: reads("nodes")},
	}, got)
	require.Equal(t, `op.v2 requests different permissions than op.v1:
+ {apiGroups: [""], resources: ["nodes"], verbs: ["get"]} cluster-wide
+ {apiGroups: [""], resources: ["secrets"], verbs: ["get"]} in namespace "ns"
- {apiGroups: [""], resources: ["nodes"], verbs: ["get"]} in namespace "ns"`, string(Report{Changes: got}.ChangedText()))

	require.Empty(t, ChangesOf(v1, v1, "ns", []string{"ns"}))
	require.Empty(t, string(Report{}.ChangedText()))
	fewer := Report{Changes: ChangesOf(v1, versioned("op.v2", reads("pods"), nil), "ns", []string{"ns"})}
	require.Contains(t, string(fewer.ChangedText()), "op.v2 requests fewer permissions than op.v1:\n- {apiGroups")
}
