package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	sample "github.com/remit-olm/remit/test/operators/sample/bundle"

	"github.com/remit-olm/remit/test/injection"
)

// bundleDir is a copy of the sample operator's bundle.
type bundleDir struct{ dir, csv string }

func newBundleDir(t *testing.T) bundleDir {
	t.Helper()
	b := bundleDir{dir: t.TempDir()}
	require.NoError(t, os.CopyFS(b.dir, sample.FS()))
	files, err := filepath.Glob(filepath.Join(b.dir, "manifests", "*clusterserviceversion*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	b.csv = files[0]
	return b
}

// checkCommands runs the commands that need no cluster, and checks that everything that they print is what they mean.
func (b bundleDir) checkCommands(t *testing.T, what string) (refused bool) {
	t.Helper()
	empty := t.TempDir()
	for _, args := range [][]string{
		{"rbac", b.dir, "--account=team-a/installer"},
		{"preflight", b.dir, "--account=team-a/installer", "--rbac-dir", empty},
		{"preflight", b.dir, "--account=team-a/installer", "--rbac-dir", empty, "-o", "yaml"},
		{"preflight", b.dir, "--account=team-a/installer", "--rbac-dir", empty, "-o", "report"},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), args, &stdout, &stderr)
		assert.NoError(t, injection.CheckText(stderr.String()), "%s: standard error of %q", what, args)
		check := injection.CheckText
		if args[0] == "rbac" || len(args) > 5 {
			check = injection.CheckDocuments
		}
		assert.NoError(t, check(stdout.String()), "%s: %q", what, args)
		refused = refused || code != 0 && stdout.Len() == 0
		if refused {
			break // the others refuse the bundle in the same way
		}
	}
	return refused
}

// Every third place of a ClusterServiceVersion: either the command line refuses the
// bundle, or what it prints is what it means. Package test/injection puts strings into all places.
func TestEveryCommandThatReadsABundle(t *testing.T) {
	b := newBundleDir(t)
	require.False(t, b.checkCommands(t, "the sample operator"))
	original, err := os.ReadFile(b.csv)
	require.NoError(t, err)
	refused := 0
	places := injection.Places[operatorsv1alpha1.ClusterServiceVersion]()
	for i := 0; i < len(places); i += 3 {
		var csv operatorsv1alpha1.ClusterServiceVersion
		require.NoError(t, yaml.Unmarshal(original, &csv))
		text := injection.Some(i)[i%2]
		places[i].Set(&csv, text)
		raw, err := json.Marshal(csv)
		if err != nil {
			continue // the text does not have the syntax of the field
		}
		require.NoError(t, os.WriteFile(b.csv, raw, 0o600))
		if b.checkCommands(t, places[i].Path) {
			refused++
		}
	}
	require.Greater(t, refused, 40)
}

func TestEveryCommandThatReadsAnnotations(t *testing.T) {
	b := newBundleDir(t)
	file := filepath.Join(b.dir, "metadata", "annotations.yaml")
	original, err := os.ReadFile(file)
	require.NoError(t, err)
	var annotations struct {
		Annotations map[string]string `json:"annotations"`
	}
	require.NoError(t, yaml.Unmarshal(original, &annotations))
	require.NotEmpty(t, annotations.Annotations)
	for key, value := range annotations.Annotations {
		for _, text := range injection.Strings() {
			annotations.Annotations[key] = text
			raw, err := json.Marshal(annotations)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, raw, 0o600))
			b.checkCommands(t, key)
		}
		annotations.Annotations[key] = value
	}
}
