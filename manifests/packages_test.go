package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/manifests/policy"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// The only ClusterRoles of the manifests for PackageManifests, with all of their rules (docs/adr/0060).
func TestPackagesHaveOnlyTheClosedList(t *testing.T) {
	objs, err := RenderPackages()
	require.NoError(t, err)
	got := map[string][]rbacv1.PolicyRule{}
	for _, obj := range ofKind(objs, "ClusterRole") {
		got[obj.GetName()] = convert[rbacv1.ClusterRole](t, obj).Rules
	}
	const group, apiService = "packages.operators.coreos.com", "v1.packages.operators.coreos.com"
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	caBundle := rule("apiregistration.k8s.io", "apiservices", "patch")
	caBundle.ResourceNames = []string{apiService}
	policies := rbacv1.PolicyRule{
		APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		ResourceNames: []string{"remit-package-server-self-apiservice"}, Verbs: []string{"get"},
	}
	require.Equal(t, map[string][]rbacv1.PolicyRule{
		names.ServiceAccountPackageServer: {caBundle, policies, rule("authentication.k8s.io", "tokenreviews", "create"), rule("authorization.k8s.io", "subjectaccessreviews", "create")},
		"remit-catalog-packages": {rule(group, "packagecatalogs", "list", "watch"), rule(group, "packagecatalogs/content", "delete", "update"),
			rule(group, "packagecatalogs/complete", "update")},
	}, got)
	for _, kind := range []string{"Role", "Namespace", "CustomResourceDefinition", "Secret"} {
		require.Empty(t, ofKind(objs, kind))
	}
	for _, obj := range ofKind(objs, "RoleBinding") {
		require.Equal(t, "extension-apiserver-authentication-reader", convert[rbacv1.RoleBinding](t, obj).RoleRef.Name)
	}
}

// The program reads, by name, the policy that it checks, and the policy is part of the manifests.
func TestThePolicyOfPackagesIsChecked(t *testing.T) {
	objs, err := RenderPackages()
	require.NoError(t, err)
	policies, bindings := policyNames(t, policy.Installation{Namespace: names.DefaultNamespace, Packages: true})
	require.Equal(t, policies, readable(t, objs, names.ServiceAccountPackageServer))
	require.Equal(t, policies, bindings)
	require.NoError(t, policy.Check(t.Context(), reader(t, objs), policy.Installation{Namespace: names.DefaultNamespace, Packages: true}))
}
