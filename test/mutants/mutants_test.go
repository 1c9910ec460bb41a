package mutants

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func TestEveryMutantApplies(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			require.Regexp(t, regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`), m.Name)
			require.False(t, names[m.Name], "two mutants have the same name")
			names[m.Name] = true
			mutated, err := m.Apply(root)
			require.NoError(t, err)
			original, err := os.ReadFile(filepath.Join(root, m.File))
			require.NoError(t, err)
			require.NotEqual(t, string(original), string(mutated))
		})
	}
}

func TestEveryKillerExists(t *testing.T) {
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			dir, words := m.Killer.Package, `func `+m.Killer.Test+`\(t `
			if m.Killer.IsRow() {
				dir, words = "test/escape", `(\{number: |[a-z]\()"`+m.Killer.Test+`"`
			}
			require.True(t, stands(t, dir, regexp.MustCompile(words)), "%s does not exist", m.Killer)
		})
	}
}

// stands reports whether a test file in the directory contains a match for the regular expression.
func stands(t *testing.T, dir string, words *regexp.Regexp) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if words.Match(text) {
			return true
		}
	}
	return false
}

func TestEveryRuleHasMutants(t *testing.T) {
	count := map[int]int{}
	for _, m := range All() {
		count[m.Rule]++
	}
	delete(count, 0)
	for rule := 1; rule <= Rules; rule++ {
		require.GreaterOrEqual(t, count[rule], 5, "rule %d", rule)
	}
	require.Len(t, count, Rules)
	require.GreaterOrEqual(t, len(All()), 40)
}
