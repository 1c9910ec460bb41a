package excess

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// The account's permissions are kept for few namespaces at a time, so all objects of one are examined before those of the next.
// The results have the order of the objects.
func TestExaminesOneNamespaceAfterTheOther(t *testing.T) {
	t.Parallel()
	var objs []client.Object
	for i := range 20 {
		objs = append(objs, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("t", i%4), Name: fmt.Sprint("b", i)},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "op"}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"}})
	}
	var asked []string
	account := Account{
		RulesOf: func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) {
			return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}, nil
		},
		Granted: func(namespace string) rbac.Permissions {
			asked = append(asked, namespace)
			return rbac.Permissions{Namespace: namespace}
		},
	}
	found, err := account.Find(objs)
	require.NoError(t, err)
	require.Len(t, found, len(objs))
	for i := range found {
		require.Same(t, objs[i], found[i].Object)
	}
	require.Equal(t, []string{"t0", "t1", "t2", "t3"}, slices.Compact(asked))
	asked = nil
	require.Len(t, account.Batch(found), len(objs))
	require.Equal(t, []string{"t0", "t1", "t2", "t3"}, slices.Compact(asked))
}
