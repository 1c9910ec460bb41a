package escape

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/oracle"
)

// revokedInterception returns the row about a shared operator whose webhook intercepts requests in another tenant's
// namespace, until that tenant revokes the account's permissions there.
func revokedInterception() row {
	return row{number: "363", title: "a webhook in another tenant's namespace, after that tenant has revoked the account's permissions", holds: calling(p0()), play: func(s *scene) {
		theirs := s.other("theirs")
		s.allow(func(c oracle.Change) bool { return s.isForHooks(c) || c.Namespace == theirs.Namespace })
		s.Create(&rbacv1.Role{ObjectMeta: theirs.Meta("shared"), Rules: []rbacv1.PolicyRule{
			rule("", "configmaps", "get", "list", "watch", "delete"), rule(rbacv1.GroupName, "roles rolebindings", "get", "create", "patch", "delete")}})
		s.Create(s.sharedBy(theirs.Namespace))
		s.Create(&corev1.ConfigMap{ObjectMeta: theirs.Meta("a")})
		s.group(s.Namespace, theirs.Namespace)
		s.publish(bundleOf(hooked(csv(), hook("Validating", intercepting("", "configmaps", "DELETE")))))
		s.subscribe()
		s.Complete()
		s.csvSays(succeeded)
		require.Equal(s.T, []string{s.Namespace, theirs.Namespace}, s.reached(s.T))
		remove := func(t assert.TestingT) error {
			victim := &corev1.ConfigMap{}
			assert.NoError(t, theirs.Get("a", victim))
			return cluster.Client.Delete(s.T.Context(), victim, client.DryRunAll)
		}
		s.Eventually(func(c *assert.CollectT) { assert.ErrorContains(c, remove(c), "failed calling webhook") })

		require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
		require.NoError(s.T, cluster.Client.Delete(s.T.Context(), s.sharedBy(theirs.Namespace)))
		s.Eventually(func(c *assert.CollectT) {
			assert.Equal(c, []string{s.Namespace}, s.reached(c))
			assert.NoError(c, remove(c))
		})

		s.Create(s.sharedBy(theirs.Namespace))
		s.Eventually(func(c *assert.CollectT) {
			assert.Equal(c, []string{s.Namespace, theirs.Namespace}, s.reached(c))
		})
		s.Succeeded(probeCSV)
		s.removeCSV()
		s.uncalled()
	}}
}

// sharedBy returns the binding with which another tenant admits the shared operator to its namespace.
func (s *scene) sharedBy(namespace string) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "shared"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: accountName}}}
	b.Namespace, b.Name = namespace, "shared"
	return b
}
