package ensure

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The cluster may change the rules of a ClusterRole that aggregates others at any time.
func TestAClusterRoleThatAggregatesOthersIsDifferent(t *testing.T) {
	want := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	live := want.DeepCopy()
	require.True(t, SameRules(live, want))
	live.AggregationRule = &rbacv1.AggregationRule{}
	require.False(t, SameRules(live, want))
}
