package rbac

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

const all, t1 = ClusterScope, "t1"

// These are rules about which authors get advice, regardless of the verdict. The numbers in the row names are those of the rows
// in test/differential/rows.
func TestLint(t *testing.T) {
	for _, row := range []struct {
		name      string
		namespace string
		rules     []rbacv1.PolicyRule
		want      []string
	}{
		{"12 and 13 a subresource star", t1, rules("get :pods/*,*/*"), []string{
			`resource "*/*" matches nothing: name the subresources, or use "*"`,
			`resource "pods/*" matches nothing: name the subresources, or use "*"`,
		}},
		{"9 one subresource of all", t1, rules("get apps:*/scale"), nil},
		{"25 a cluster-scoped resource in a namespace", t1, rules("get :nodes,nodes/proxy,pods"), []string{
			"nodes is cluster-scoped: a namespaced rule grants no access to it",
			"nodes/proxy is cluster-scoped: a namespaced rule grants no access to it",
		}},
		{"26 a cluster-scoped resource in the cluster", all, rules("get :nodes"), nil},
		{"requests for a Namespace are authorized in it", t1, rules("get :namespaces"), nil},
		{"54 ClusterRoles are bound in namespaces", t1, rules("bind rbac.authorization.k8s.io:clusterroles [view]"), nil},
		{"requests to read ClusterRoles are not authorized in a namespace", t1, rules("get,bind rbac.authorization.k8s.io:clusterroles"), []string{
			"clusterroles is cluster-scoped: a namespaced rule grants no access to it",
		}},
		{"46 create by name", t1, rules("get,create :secrets [x]", "create :secrets [y]"), []string{
			"create on secrets with resourceNames allows server-side apply but not POST",
		}},
		{"requests to create a subresource have a name", t1, rules("create :serviceaccounts/token [x]"), nil},
		{"50 the empty name", t1, rules("get :secrets []"), []string{
			`resourceName "" of secrets matches requests without a name, such as list and create`,
		}},
		{"51 verbs are case-sensitive", t1, rules("GET :pods"), []string{`verb "GET" matches nothing: verbs are lowercase`}},
		{"a group with its version", t1, rules("get apps/v1:deployments"), []string{
			`apiGroup "apps/v1" matches nothing: API groups do not include a version`,
		}},
		{"common rules need no advice", t1, rules("get,list,watch :pods,pods/log", "* *:*", "get :secrets [a]"), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, Lint(row.namespace, row.rules))
		})
	}
}
