package bundle_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
)

// corpus returns the directories of all real bundles, or skips.
func corpus(t *testing.T) []string {
	t.Helper()
	root := os.Getenv("CORPUS_DIR")
	if root == "" {
		root = "../../../shared/corpus"
	}
	dirs, err := filepath.Glob(filepath.Join(root, "bundles", "*", "*", "manifests"))
	require.NoError(t, err)
	if len(dirs) == 0 {
		t.Skipf("no corpus of real bundles in %q (CORPUS_DIR)", root)
	}
	return dirs
}

func TestEveryRealBundleParses(t *testing.T) {
	for _, dir := range corpus(t) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		var manifests [][]byte
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			manifests = append(manifests, raw)
		}
		b, err := bundle.Parse(manifests)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if err := bundle.ValidateCSV(b.CSV); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
