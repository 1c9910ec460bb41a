package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

// The catalog's name of a bundle identifies it, in the upgrade graph as well. The name of its ClusterServiceVersion does not matter.
func TestInstallsBundlesWhoseClusterServiceVersionHasAnotherName(t *testing.T) {
	t.Parallel()
	w := given(t)
	other := strings.Replace(csv, "metadata: {name: op.vVERSION}", "metadata: {name: operator}", 1)
	w.snap.Packages["op"].DefaultChannel = ""
	w.installed(other, crd)
	require.Equal(t, olmv1.BundleMetadata{Name: "op.v1.0.0", Version: "1.0.0"}, w.get().Status.Install.Bundle)
	w.publish("1.1.0", "op.v1.0.0", other, crd, configMap)
	w.awaitInstalled("1.1.0")
	require.Equal(t, "op.v1.1.0", w.get().Status.Install.Bundle.Name)
}
