package escape

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// gifts contains bindings that users create in their own namespaces, and that must not affect installs elsewhere.
func gifts() []row {
	return []row{
		{number: "397", title: "a neighbor's binding to the ServiceAccount that a CSV declares, older than the install", holds: p0(), play: func(s *scene) {
			s.gives(s.other("theirs"), forge.ServiceAccount)
			s.install(bundleOf(csv().Permissions(forge.Entry(forge.ServiceAccount, readMaps)).PodSpec(forge.ServiceAccount, "serviceAccountName")))
			s.Complete()
			s.csvSays(succeeded)
		}},
		{number: "398", title: "a neighbor's binding to an operator's ClusterRole, before the same version is installed again", holds: p3(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool { return c.Group == rbacv1.GroupName && c.Namespace == "" })
			s.install(bundleOf(csv().ClusterPermissions(csvReadsPods())))
			s.Succeeded(probeCSV)
			roles := &rbacv1.ClusterRoleList{}
			ours := client.MatchingLabels{names.LabelLineage: s.lineage().Mark()}
			require.NoError(s.T, cluster.Client.List(s.T.Context(), roles, ours))
			require.Len(s.T, roles.Items, 1)
			theirs := s.other("theirs")
			s.Create(&rbacv1.RoleBinding{ObjectMeta: theirs.Meta("trap"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roles.Items[0].Name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: theirs.Namespace, Name: "default"}}})
			s.uninstall()
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, cluster.Client.List(s.T.Context(), roles, ours))
				assert.Empty(c, roles.Items)
			})
			s.subscribe()
			s.Succeeded(probeCSV)
		}},
	}
}

// gives grants a ServiceAccount of the scene a permission in another namespace, as whoever may do everything there can.
func (s *scene) gives(theirs *env.Tenant, account string) {
	s.T.Helper()
	s.told.Gifts = append(s.told.Gifts, theirs.Namespace)
	s.Create(&rbacv1.Role{ObjectMeta: theirs.Meta("gift"), Rules: []rbacv1.PolicyRule{rule("", "secrets", "get")}})
	s.Create(&rbacv1.RoleBinding{ObjectMeta: theirs.Meta("gift"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gift"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: account}}})
}
