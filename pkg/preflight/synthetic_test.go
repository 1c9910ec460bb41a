package preflight_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

var extension = scoped.Identity{Extension: "demo"}

func podNeeds() []preflight.Need {
	return []preflight.Need{
		{Namespace: "ns", Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}},
	}
}

func examineExtension(l rbac.Listers) preflight.Report {
	return preflight.Examine(extension, podNeeds(), func(namespace string) rbac.Permissions {
		return l.Permissions(rbac.SubjectOf(extension), namespace)
	})
}

func TestGrantsOfASyntheticUserHaveAUserSubject(t *testing.T) {
	report := examineExtension(granted(t, nil))
	require.Equal(t, `User olm:clusterextension:demo is missing 2 permissions; nothing was written.
- User "olm:clusterextension:demo" cannot get resource "nodes" in API group "" at the cluster scope
- User "olm:clusterextension:demo" cannot get resource "pods" in API group "" in the namespace "ns"`, string(report.Refusals()))
	require.Equal(t, "olm:clusterextension:demo", report.Document().Account)
	manifests := string(report.Manifests())
	require.Contains(t, manifests, "  name: remit-extension-grant-demo:")
	require.Contains(t, manifests, `subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: olm:clusterextension:demo
`)
	require.NotContains(t, manifests, "ServiceAccount")
	require.True(t, examineExtension(granted(t, report.Manifests())).Clear(), "the grant is complete")

	other := report
	other.Identity.Extension = "other"
	require.NotContains(t, string(other.Manifests()), grantNameOf(t, report))
}

// A grant can also be bound to the group of all synthetic users.
func TestGrantsThroughGroupsCount(t *testing.T) {
	report := examineExtension(granted(t, nil))
	for _, group := range extension.Groups() {
		var grant []byte
		for i, need := range podNeeds() {
			meta := fmt.Sprintf("metadata: {name: group-%d}", i)
			kind := "ClusterRole"
			if need.Namespace != "" {
				kind, meta = "Role", fmt.Sprintf("metadata: {name: group-%d, namespace: %s}", i, need.Namespace)
			}
			grant = fmt.Appendf(grant, `---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]s
%[2]s
rules:
- {verbs: [get], apiGroups: [""], resources: %[3]q}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
%[2]s
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: group-%[4]d}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: %[5]q}]
`, kind, meta, need.Rules[0].Resources, i, group)
		}
		require.False(t, report.Clear())
		require.True(t, examineExtension(granted(t, grant)).Clear(), group)
	}
}

func TestReportsThatASyntheticUserHasTooManyPermissions(t *testing.T) {
	for namespace, where := range map[string]string{"": " cluster-wide", "ns": " in a namespace"} {
		err := preflight.AsAccountError(extension, &rbac.LimitError{User: extension.Username(), Namespace: namespace})
		require.Equal(t, scoped.AccountHoldsTooMuch, scoped.ReasonOf(err))
		require.ErrorContains(t, err, "the roles bound to User olm:clusterextension:demo"+where+" have more")
		require.ErrorContains(t, err, "installs nothing as this User until")
	}
}
