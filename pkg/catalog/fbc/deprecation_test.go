package fbc

import (
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestADeprecationIsOneLine(t *testing.T) {
	pkg := &catalog.Package{}
	e := declcfg.DeprecationEntry{Reference: declcfg.PackageScopedReference{Schema: declcfg.SchemaPackage}, Message: "---\nkind: ClusterRoleBinding\n---"}
	require.NoError(t, deprecate(pkg, e))
	require.Equal(t, "\\--- kind: ClusterRoleBinding ---", pkg.Deprecation)
}
