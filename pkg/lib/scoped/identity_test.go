package scoped

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestIdentities(t *testing.T) {
	t.Parallel()
	account := ServiceAccountIdentity(types.NamespacedName{Namespace: "team-a", Name: "installer"})
	require.False(t, account.IsSynthetic())
	require.Equal(t, "ServiceAccount team-a/installer", account.String())
	require.Equal(t, "team-a/installer", account.ID())
	require.Equal(t, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "team-a", Name: "installer"}, account.Subject())

	synthetic, err := ExtensionIdentity("demo.v1")
	require.NoError(t, err)
	require.True(t, synthetic.IsSynthetic())
	require.Equal(t, "User olm:clusterextension:demo.v1", synthetic.String())
	require.Equal(t, "olm:clusterextension:demo.v1", synthetic.ID())
	require.Equal(t, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "olm:clusterextension:demo.v1"}, synthetic.Subject())
	require.Equal(t, []string{"olm:clusterextensions", "system:authenticated"}, synthetic.Groups())
}

// invalidExtensions are names that no ClusterExtension can have.
func invalidExtensions() []string {
	return []string{
		"", "system:masters", "node:n1", "a:b", "A", "a b", "a/b", "a\n", "*", "-a", ".", "ä", strings.Repeat("a", 254),
	}
}

func TestRefusesNamesThatNoClusterExtensionCanHave(t *testing.T) {
	t.Parallel()
	for _, name := range invalidExtensions() {
		_, err := ExtensionIdentity(name)
		require.ErrorContains(t, err, "is not a valid ClusterExtension name", name)
	}
}
