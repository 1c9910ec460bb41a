package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

func TestFindsTheTargetsInWhichSomethingIsGranted(t *testing.T) {
	role := func(namespace string) client.Object {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r"}}
	}
	for _, row := range []struct {
		targets []string
		objs    []client.Object
		want    []string
	}{
		{[]string{"team-a"}, []client.Object{role("team-a"), role("kube-system"), &rbacv1.ClusterRole{}}, nil},
		{[]string{"team-a", "victim"}, []client.Object{role("team-a"), role("victim")}, []string{"victim"}},
		{[]string{"team-a", "granted"}, []client.Object{role("team-a")}, nil},
		{[]string{rbac.ClusterScope}, []client.Object{role("team-a"), &rbacv1.ClusterRole{}}, []string{rbac.ClusterScope}},
		{[]string{rbac.ClusterScope}, []client.Object{role("team-a")}, nil},
	} {
		require.ElementsMatch(t, row.want, elsewhere("team-a", row.targets, row.objs))
	}
}
