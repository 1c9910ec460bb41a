package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cutting matches commands that select a part of a text that begins with the first line of three dashes. The text of a message
// contains names that bundles choose, so the part may not be what Remit meant. kubectl remit grant and -o yaml print objects alone.
var cutting = regexp.MustCompile(`/\^-{3}/|\^---.*\| *kubectl|\{\.status\.conditions.*\| *kubectl (apply|create|replace)`)

func TestNothingCutsManifestsOutOfMessages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`kubectl remit preflight x | sed -n '/^---/,$p' | kubectl apply -f -`:                       true,
		`kubectl get sub x | awk '/^---/{p=1} p' | kubectl create -f -`:                             true,
		`kubectl get sub x -o jsonpath='{.status.conditions[0].message}' | tail -9 | kubectl apply`: true,
		`kubectl remit preflight x -o yaml | kubectl apply -f -`:                                    false,
		`kubectl get sub x -o jsonpath='{.status.conditions[0].message}'`:                           false,
	} {
		require.Equal(t, want, cutting.MatchString(text), text)
	}
	checked := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Base(path) == "pasting_test.go" || !slices.Contains([]string{".go", ".md", ".sh", ".yaml", ""}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		for line := range strings.Lines(string(text)) {
			require.False(t, cutting.MatchString(line), "%s: %s", path, line)
		}
		return nil
	}))
	require.Greater(t, checked, 500)
}
