package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// codeSpan matches inline code; placeholder matches the parts of it that differ from object to object.
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	placeholder = regexp.MustCompile(`<[^>]*>|…`)
	// fieldPath matches the JSON path of a field; its group is the name of the field.
	fieldPath = regexp.MustCompile(`^(?:\w+\.)*([a-z]\w+)$`)
	// testFunction matches the name of a test.
	testFunction = regexp.MustCompile(`^Test[A-Z]\w*$`)
)

// TestCompatibilityIsShownByTests checks that each row of the page has a state, and a reason or tests that exist and
// contain the strings of its first column.
func TestCompatibilityIsShownByTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/compatibility.md"))
	require.NoError(t, err)
	tests := readTests(t)
	found := 0
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| --- ") || strings.HasPrefix(line, "| | ") {
			continue
		}
		found++
		for _, problem := range tests.problems(line) {
			t.Errorf("%s\n%.100s", problem, line)
		}
	}
	require.Greater(t, found, 100)
}

func TestFindsRowsThatNoTestShows(t *testing.T) {
	t.Parallel()
	tests := &testSources{dirs: map[string][]string{"TestA": {"a"}}, text: map[string]string{"a": `"one" reasonTwo`}, constants: map[string][]string{"two": {"reasonTwo"}}}
	for row, problem := range map[string]string{
		"| `one` | same | `TestA` |":                       "",
		"| `one …`, `<name> two` | same | `TestA` |":       "",
		"| `three` | absent | a reason |":                  "",
		"| `three` | better | `TestA` |":                   `no test of this row contains "three"`,
		"| `one` | same | a reason |":                      "the row names no test",
		"| `one` | similar | `TestA` |":                    "there is no state similar",
		"| `one` | same in compat | `TestA`, `TestB` |":    "there is no test TestB",
		"| `one` | absent | |":                             "the row has no reason",
		"| a row with two cells | same |":                  "the row has 2 cells",
		"| `one` | same | `TestA`, but not `notATest()` |": "",
	} {
		want := []string{problem}
		if problem == "" {
			want = nil
		}
		assert.Equal(t, want, tests.problems(row), row)
	}
}

// testSources contains the tests of the repository.
type testSources struct {
	// dirs maps the name of a test to the files that contain it, or to its directories below test/. text maps a file or a
	// directory to the source of its tests and to their test data.
	dirs map[string][]string
	text map[string]string
	// constants maps a value to the names of the constants that have it.
	constants map[string][]string
}

// problems describes the errors in a row of the page.
func (s *testSources) problems(row string) (out []string) {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(row), "|"), "|"), "|")
	if len(cells) != 3 {
		return []string{"the row has " + string(rune('0'+len(cells))) + " cells"}
	}
	state, reason := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
	if !slices.Contains([]string{"same", "same in compat", "better", "absent"}, state) {
		return []string{"there is no state " + state}
	}
	if state == "absent" {
		if reason == "" {
			return []string{"the row has no reason"}
		}
		return nil
	}
	var text, around strings.Builder
	for _, code := range codeSpan.FindAllStringSubmatch(reason, -1) {
		if !testFunction.MatchString(code[1]) {
			continue
		}
		if len(s.dirs[code[1]]) == 0 {
			return append(out, "there is no test "+code[1])
		}
		for _, dir := range s.dirs[code[1]] {
			text.WriteString(s.text[dir])
			around.WriteString(s.text[filepath.ToSlash(filepath.Dir(strings.TrimPrefix(dir, root+"/")))])
		}
	}
	if text.Len() == 0 {
		return []string{"the row names no test"}
	}
	for _, code := range codeSpan.FindAllStringSubmatch(cells[0], -1) {
		for _, part := range placeholder.Split(code[1], -1) {
			if part = strings.TrimSpace(part); !s.contains(text.String(), around.String(), part) {
				out = append(out, `no test of this row contains "`+part+`"`)
			}
		}
	}
	return out
}

// contains reports whether a test contains a string, possibly quoted, as the name of a constant or as a Go field. A
// message must be in the test itself: a comparison with the constant of the program would not notice another wording. A
// field may be in a helper of its package (around).
func (s *testSources) contains(text, around, part string) bool {
	if strings.Contains(text, part) || strings.Contains(text, strings.ReplaceAll(part, `"`, `\"`)) {
		return true
	}
	if strings.Contains(part, " ") {
		return false
	}
	if isField(text+around, part) {
		return true
	}
	return slices.ContainsFunc(s.constants[part], func(name string) bool {
		return regexp.MustCompile(`\b` + name + `\b`).MatchString(text)
	})
}

// isField reports whether a text contains a Go field.
func isField(text, part string) bool {
	field := fieldPath.FindStringSubmatch(part)
	return field != nil && strings.Contains(strings.ToLower(text), strings.ToLower(field[1]))
}

// readTests reads all tests of the repository, and the constants of the repository and of the API module.
func readTests(t *testing.T) *testSources {
	t.Helper()
	s := &testSources{dirs: map[string][]string{}, text: map[string]string{}, constants: map[string][]string{}}
	from := newSources(t)
	dirs := []string{apiDir, apiDirV1}
	for _, top := range []string{"api", "cmd", "manifests", "pkg", "test"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			dir, err := filepath.Rel(root, path)
			dirs = append(dirs, dir)
			return err
		}))
	}
	for _, dir := range dirs {
		for name, expr := range from.constants(t, dir) {
			if value, ok := from.value(t, dir, expr); ok && value != "" {
				s.constants[value] = append(s.constants[value], name)
			}
		}
		s.read(t, dir)
	}
	return s
}

// read reads the tests of a directory. Below test/, they use helpers in other files, which count as part of them.
func (s *testSources) read(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	data, err := filepath.Glob(filepath.Join(root, dir, "testdata", "*.yaml"))
	require.NoError(t, err)
	golden := ""
	for _, file := range data {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		golden += string(text)
	}
	s.text[dir] = golden
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(dir, "test") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		s.text[dir] += string(text)
		in := dir
		if !strings.HasPrefix(dir, "test") {
			in = file
			s.text[in] = string(text) + golden
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && testFunction.MatchString(f.Name.Name) {
				s.dirs[f.Name.Name] = append(s.dirs[f.Name.Name], in)
			}
		}
	}
}
