// Package corpus locates the real operators and catalogs that tests use, on machines that have them.
package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const (
	variable = "CORPUS_DIR"
	fallback = "../shared/corpus"
)

// Dir returns a directory of the corpus, or skips the test if it does not exist. CORPUS_DIR is the path of the corpus,
// absolute or relative to the module's root.
func Dir(t testing.TB, path ...string) string {
	t.Helper()
	dir, err := Find(path...)
	if err != nil {
		t.Skip(err)
	}
	return dir
}

// Find returns a directory of the corpus, or an error if it does not exist.
func Find(path ...string) (string, error) {
	root := cmp.Or(os.Getenv(variable), fallback)
	if !filepath.IsAbs(root) {
		module, err := moduleRoot()
		if err != nil {
			return "", err
		}
		root = filepath.Join(module, root)
	}
	dir := filepath.Join(append([]string{root}, path...)...)
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("corpus of real operators not found: %w (set %s)", err, variable)
	}
	return dir, nil
}

// moduleRoot returns the closest parent directory with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("go.mod does not exist in any parent of the working directory")
		}
		dir = up
	}
}
