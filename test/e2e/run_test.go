package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/injection"
)

// What the command prints about a directory of bundles, which may be a stranger's, is text. The test starts a cluster of its own, so it is
// not parallel: beside all other tests, the steps of the command took longer than their timeout, which is short because most of the bundles
// cannot be installed.
func TestRunningBundlesWithDocuments(t *testing.T) {
	var places []injection.Place
	for _, p := range injection.Places[operatorsv1alpha1.ClusterServiceVersion]() {
		if strings.HasPrefix(p.Path, ".spec") {
			places = append(places, p)
		}
	}
	dir := t.TempDir()
	for i := 0; i < len(places); i += 50 {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		require.NoError(t, json.Unmarshal([]byte(forge.NewCSV("op.v1.0.0").String()), csv))
		places[i].Set(csv, injection.Some(i)[i%2])
		if manifest, err := json.Marshal(csv); err == nil {
			writeBundle(t, filepath.Join(dir, fmt.Sprint("op", i), "1.0.0"), fmt.Sprint("op", i), manifest)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(cluster.Bin, "kubectl-remit"), "run", "--exit", "--timeout=30s", "--bundles", dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // most of the bundles cannot be installed
	require.Contains(t, stdout.String(), injection.Stranger, stderr.String())
	require.Contains(t, stderr.String(), "packages are not installed")
	require.NoError(t, injection.CheckText(stdout.String()))
	require.NoError(t, injection.CheckText(stderr.String()))
}

func writeBundle(t *testing.T, dir, pkg string, manifest []byte) {
	t.Helper()
	for name, content := range map[string]string{
		"manifests/csv.json": string(manifest),
		"metadata/annotations.yaml": fmt.Sprintf(
			"annotations: {operators.operatorframework.io.bundle.package.v1: %s, operators.operatorframework.io.bundle.channels.v1: stable}\n", pkg),
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
}
