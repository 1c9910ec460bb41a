package author

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// The annotation keeps permissions that may be cluster-wide, so permissions in the namespace are not sufficient.
func TestOnlyAnAdministratorKeepsAnExcess(t *testing.T) {
	const denied = "a user needs the verb keep-excess on operatorgroups.operators.coreos.com in all namespaces"
	everyProfile(t, func(s *site) {
		og := s.group("group", installer)
		og.Annotations = map[string]string{names.AnnotationKeepExcess: "true"}
		s.eventually(func(c *assert.CollectT) {
			assert.ErrorContains(c, s.alice.Create(s.Context(), og.DeepCopy(), client.DryRunAll), denied)
		})
		require.NoError(s, s.admin.Create(s.Context(), og.DeepCopy()))

		edit := func(c client.Client, change func(map[string]string)) error {
			live := s.group("group", installer)
			require.NoError(s, s.admin.Get(s.Context(), client.ObjectKeyFromObject(live), live))
			before := live.DeepCopy()
			if live.Annotations == nil {
				live.Annotations = map[string]string{}
			}
			change(live.Annotations)
			return c.Patch(s.Context(), live, client.MergeFrom(before))
		}
		require.NoError(s, edit(s.alice, func(a map[string]string) { a["other"] = "x" }), "other changes are not affected")
		require.ErrorContains(s, edit(s.alice, func(a map[string]string) { a[names.AnnotationKeepExcess] = "yes" }), denied)
		require.NoError(s, edit(s.alice, func(a map[string]string) { delete(a, names.AnnotationKeepExcess) }), "removing the annotation keeps nothing")
		require.ErrorContains(s, edit(s.alice, func(a map[string]string) { a[names.AnnotationKeepExcess] = "true" }), denied)

		meta := metav1.ObjectMeta{Name: "keep-excess-" + s.namespace}
		s.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorgroups"}, Verbs: []string{"keep-excess"}}}})
		s.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: alice}}})
		s.eventually(func(c *assert.CollectT) {
			assert.NoError(c, edit(s.alice, func(a map[string]string) { a[names.AnnotationKeepExcess] = "true" }))
		})
		require.NoError(s, s.admin.Delete(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta}))
	})
}

// In a namespace that is left to OLM, Remit neither reports nor removes an excess.
func TestOnlyAnAdministratorLeavesANamespaceToOLM(t *testing.T) {
	const denied = "a user needs the verb keep-excess on operatorgroups.operators.coreos.com in all namespaces"
	everyProfile(t, func(s *site) {
		og := s.group("group", installer)
		left := og.DeepCopy()
		left.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
		require.NoError(s, s.admin.Create(s.Context(), left.DeepCopy(), client.DryRunAll))
		s.eventually(func(c *assert.CollectT) {
			assert.ErrorContains(c, s.alice.Create(s.Context(), left.DeepCopy(), client.DryRunAll), denied)
		})

		require.NoError(s, s.admin.Create(s.Context(), og))
		before := og.DeepCopy()
		og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
		require.ErrorContains(s, s.alice.Patch(s.Context(), og.DeepCopy(), client.MergeFrom(before)), denied)
		require.NoError(s, s.admin.Patch(s.Context(), og, client.MergeFrom(before)))
		before = og.DeepCopy()
		og.Annotations = nil
		require.NoError(s, s.alice.Patch(s.Context(), og, client.MergeFrom(before)))
	})
}
