package extension

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const installer = "installer"

// There is no ServiceAccount, and the administrator applies the manifests in the report.
func TestAClusterExtensionWithoutAServiceAccount(t *testing.T) {
	t.Parallel()
	s := given(t)
	begun := time.Now()
	s.install("")
	message := s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	t.Logf("first status after %s", time.Since(begun).Round(time.Millisecond))
	require.Contains(t, message, "olm:clusterextension:"+s.Name)
	require.Equal(t, &olmv1.Identity{
		Kind: olmv1.IdentityKindUser, Name: "olm:clusterextension:" + s.Name, Groups: []string{"olm:clusterextensions", "system:authenticated"},
	}, s.Get().Status.Identity)
	require.Empty(t, s.Requests(s.Since), "no request is sent as a user that is not enrolled")

	s.Paste(clusterextension.FileEnrollment)
	s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	s.nothingWritten(s.Since)
	from, granted := s.Mark(), time.Now()
	complete := s.pasteGrant()
	s.Installed("1.0.0")
	require.Less(t, s.oneRound(from, granted, complete), 40)
	require.True(t, s.exists())

	s.upgrades()
	s.removesWithoutItsIdentity()
}

// upgrades selects a version that needs more permissions, and asserts that the installed version remains until they are
// granted.
func (s *scene) upgrades() {
	s.t.Helper()
	from := s.Mark()
	s.upgrade()
	require.Contains(s.t, s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions), "secrets")
	s.nothingWritten(from)
	require.Equal(s.t, "1.0.0", s.Get().Status.Install.Bundle.Version)
	require.True(s.t, s.exists())
	from, granted := s.Mark(), time.Now()
	complete := s.pasteGrant()
	s.Installed("2.0.0")
	s.oneRound(from, granted, complete)
}

// removesWithoutItsIdentity removes all grants and the enrollment, and then the ClusterExtension.
func (s *scene) removesWithoutItsIdentity() {
	s.t.Helper()
	identity := s.Identity()
	bindings, roles := &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}
	require.NoError(s.t, cluster.Client.List(s.t.Context(), bindings))
	require.NoError(s.t, cluster.Client.List(s.t.Context(), roles))
	var granted []client.Object
	for i := range bindings.Items {
		if binding := &bindings.Items[i]; isFor(binding.Subjects, identity) {
			granted = append(granted, binding)
		}
	}
	for i := range roles.Items {
		if binding := &roles.Items[i]; isFor(binding.Subjects, identity) {
			granted = append(granted, binding)
		}
	}
	require.NotEmpty(s.t, granted)
	if identity.IsSynthetic() {
		granted = append(granted, scoped.ExtensionEnrollment(identity, cluster.Home, scoped.ImpersonationConstrained)...)
	} else {
		granted = append(granted, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: identity.Account.Name}})
	}
	for _, obj := range granted {
		require.NoError(s.t, cluster.Client.Delete(s.t.Context(), obj))
	}
	s.Remove()
}

func isFor(subjects []rbacv1.Subject, identity scoped.Identity) bool {
	want := identity.Subject()
	for _, subject := range subjects {
		if subject.Kind == want.Kind && subject.Namespace == want.Namespace && subject.Name == want.Name {
			return true
		}
	}
	return false
}

// The ClusterExtension names a ServiceAccount, which does not have to exist yet.
func TestAClusterExtensionWithAServiceAccount(t *testing.T) {
	t.Parallel()
	s := given(t)
	s.install(installer)
	s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonIdentityNotFound)
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: installer}})
	s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	require.Empty(t, s.Requests(s.Since))
	s.Paste(clusterextension.FileEnrollment)
	s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	s.nothingWritten(s.Since)
	from, granted := s.Mark(), time.Now()
	complete := s.pasteGrant()
	s.Installed("1.0.0")
	require.Less(t, s.oneRound(from, granted, complete), 40)
	require.Equal(t, &olmv1.Identity{
		Kind: olmv1.IdentityKindServiceAccount, Namespace: s.Name, Name: installer,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + s.Name, "system:authenticated"},
	}, s.Get().Status.Identity)

	s.upgrades()
	s.removesWithoutItsIdentity()
}

// A binding for the group applies to all ClusterExtensions without a ServiceAccount and to no others. A binding for one user
// applies only to that user's ClusterExtension. This test does not run in parallel, because other tests expect the group to
// have no permissions.
func TestGrantsToTheGroupAndToOneUser(t *testing.T) {
	first, second, named := given(t), given(t), given(t)
	named.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: named.Name, Name: installer}})
	named.Create(scoped.ExtensionAccountEnrollment(types.NamespacedName{Namespace: named.Name, Name: installer}, cluster.Home)...)
	for _, s := range []*scene{first, second} {
		s.install("")
		s.Create(scoped.ExtensionEnrollment(s.Identity(), cluster.Home, scoped.ImpersonationConstrained)...)
	}
	named.install(installer)
	for _, s := range []*scene{first, second, named} {
		s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	}

	t.Cleanup(first.bind(first.Identity().Subject()))
	first.Installed("1.0.0")
	for _, s := range []*scene{second, named} {
		s.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
		s.nothingWritten(s.Since)
	}

	t.Cleanup(second.bind(rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: names.GroupExtensions}))
	second.Installed("1.0.0")
	named.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	named.nothingWritten(named.Since)
}
