package bundle_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/test/env/corpus"
)

// realBundles returns the directories of all bundles in the corpus.
func realBundles(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(corpus.Dir(t, "bundles"), "*", "*", "manifests"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	return dirs
}

func TestParsesEveryRealBundle(t *testing.T) {
	for _, dir := range realBundles(t) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		var manifests [][]byte
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			manifests = append(manifests, raw)
		}
		b, err := parseAll(manifests)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if err := bundle.ValidateCSV(b.CSV); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
