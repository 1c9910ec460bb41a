package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// Without this test, only `make mutants` would find a mutant that does not compile: its killer cannot run.
func TestEveryMutantCompiles(t *testing.T) {
	dirs := map[string]bool{}
	for _, m := range All() {
		if filepath.Ext(m.File) == ".go" {
			dirs["./"+filepath.Dir(m.File)] = true
		}
	}
	files := token.NewFileSet()
	loaded := map[string]*packages.Package{} // by file
	for _, p := range load(t, files, dirs) {
		for _, file := range p.CompiledGoFiles {
			loaded[file] = p
		}
	}
	for _, m := range All() {
		if filepath.Ext(m.File) != ".go" {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join(root, m.File))
			require.NoError(t, err)
			text, err := m.Apply(root)
			require.NoError(t, err)
			mutated, err := parser.ParseFile(files, m.File, text, parser.SkipObjectResolution)
			require.NoError(t, err)
			require.NotNil(t, loaded[path], "no package contains the file")
			require.NoError(t, compile(files, loaded[path], path, mutated))
		})
	}
}

func load(t *testing.T, files *token.FileSet, dirs map[string]bool) []*packages.Package {
	t.Helper()
	var patterns []string
	for dir := range dirs {
		patterns = append(patterns, dir)
	}
	all, err := packages.Load(&packages.Config{
		Context: t.Context(), Dir: root, Fset: files,
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes,
	}, patterns...)
	require.NoError(t, err)
	return all
}

// compile checks the types of a package with one file replaced.
func compile(files *token.FileSet, p *packages.Package, path string, mutated *ast.File) error {
	syntax := []*ast.File{mutated}
	for i, file := range p.CompiledGoFiles {
		if file != path {
			syntax = append(syntax, p.Syntax[i])
		}
	}
	imports := imported{}
	for _, other := range p.Types.Imports() {
		imports[other.Path()] = other
	}
	_, err := (&types.Config{Importer: imports}).Check(p.PkgPath, files, syntax, nil)
	return err
}

// imported contains packages by path.
type imported map[string]*types.Package

// Import implements types.Importer.
func (i imported) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := i[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %q is not imported", path)
}
