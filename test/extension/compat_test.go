package extension

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
)

// In the profile compat, every identity is enrolled, so only grants are needed. An identity still starts without permissions.
func TestCompatNeedsNoEnrollment(t *testing.T) {
	t.Parallel()
	c, err := env.Start(t.Context(), env.Options{
		Profile: manifests.ProfileCompat, Extensions: true, ExtensionArgs: []string{"--registry-plain-http=" + images.Host},
		Without: []string{names.ServiceAccountCatalog, names.ServiceAccountOLM},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	c.ServeCatalog(t, images, "compat", env.Releases("a.v1.0.0 stable", "b.v1.0.0 stable"))
	synthetic, err := scoped.ExtensionIdentity("a")
	require.NoError(t, err)
	for name, account := range map[string]string{"a": "", "b": installer} {
		identity := synthetic
		if account != "" {
			identity = scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: name, Name: account})
		}
		ext := env.NewClusterExtension(name, name)
		ext.Spec.ServiceAccount.Name = account
		for _, obj := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: installer}},
			ext,
		} {
			require.NoError(t, c.Client.Create(t.Context(), obj))
		}
		reaches(t, c, name, olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
		require.NoError(t, c.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: []rbacv1.Subject{identity.Subject()}}))
		reaches(t, c, name, olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	}
	_, err = c.CheckIdentities(context.Background())
	require.NoError(t, err)
}

// reaches waits until a condition of a ClusterExtension has the given status and reason.
func reaches(t *testing.T, on *env.Cluster, name, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		ext := &olmv1.ClusterExtension{}
		if !assert.NoError(c, on.Client.Get(t.Context(), client.ObjectKey{Name: name}, ext)) {
			return
		}
		if got := meta.FindStatusCondition(ext.Status.Conditions, kind); assert.NotNil(c, got) {
			assert.Equal(c, string(status)+" "+reason, string(got.Status)+" "+got.Reason, got.Message)
		}
	})
}
