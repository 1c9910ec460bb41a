package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/remit-olm/remit/test/mutants"
)

// Compiling and linking a test takes several times as long as running it. Therefore, mutants that change the body of a function are
// compiled together, each as a copy of its function, and the function calls the copy whose number the environment contains.
const (
	variable     = "REMIT_MUTANT"
	activeImport = "github.com/remit-olm/remit/test/mutants/active"
	activeFile   = "test/mutants/active/active.go"
	activeText   = `package active

import (
	"os"
	"strconv"
)

// Mutant is the number of the mutant that is active, or 0.
var Mutant, _ = strconv.Atoi(os.Getenv("` + variable + `"))
`
)

// switched contains mutants that are compiled together.
type switched struct {
	// numbers contains the number of each mutant, by name.
	numbers map[string]int
	overlay string
	// tests contains the test binary of each package.
	tests map[string]string
}

// edit replaces the bytes from one offset to another.
type edit struct {
	from, to int
	text     string
}

// switchAll compiles the mutants that can be compiled together.
func (b bench) switchAll(ctx context.Context, all []mutants.Mutant, parallel int) (switched, error) {
	s := switched{numbers: map[string]int{}, tests: map[string]string{}}
	edits := map[string][]edit{}
	for i, m := range all {
		if m.Alone || m.Killer.IsRow() || filepath.Ext(m.File) != ".go" {
			continue
		}
		own, ok, err := b.editsOf(m, i+1)
		if err != nil {
			return s, err
		}
		if ok {
			s.numbers[m.Name] = i + 1
			edits[m.File] = append(edits[m.File], own...)
			s.tests[m.Killer.Package] = ""
		}
	}
	if err := b.writeOverlay(&s, edits); err != nil {
		return s, err
	}
	return s, b.compileTests(ctx, &s, parallel)
}

// editsOf returns the edits that add a mutant to its file, or false if it does not change the body of a function.
func (b bench) editsOf(m mutants.Mutant, number int) ([]edit, bool, error) {
	original, err := os.ReadFile(filepath.Join(b.root, m.File))
	if err != nil {
		return nil, false, err
	}
	mutated, err := m.Apply(b.root)
	if err != nil {
		return nil, false, err
	}
	at := strings.Index(string(original), m.Old)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, m.File, original, parser.SkipObjectResolution)
	if err != nil {
		return nil, false, err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "init" || at <= offset(f.Body.Lbrace) || at+len(m.Old) > offset(f.Body.Rbrace) {
			continue
		}
		copied := fmt.Sprintf("%s__%d", f.Name.Name, number)
		name, end := offset(f.Name.Pos()), offset(f.End())+len(mutated)-len(original)
		text := "\n" + string(mutated[offset(f.Pos()):name]) + copied + string(mutated[name+len(f.Name.Name):end]) + "\n"
		edits, call := callOf(f, offset, copied)
		edits = append(edits, edit{offset(f.Body.Lbrace) + 1, offset(f.Body.Lbrace) + 1, fmt.Sprintf("if remitactive.Mutant == %d { %s };", number, call)},
			edit{len(original), len(original), text})
		return edits, true, nil
	}
	return nil, false, nil
}

// callOf returns the statements that call the copy of a function with its arguments, and the edits that give all of them names.
func callOf(f *ast.FuncDecl, offset func(token.Pos) int, copied string) (edits []edit, call string) {
	named := func(list *ast.FieldList, prefix string) (names []string) {
		if list == nil {
			return nil
		}
		for i, field := range list.List {
			if len(field.Names) == 0 {
				name := fmt.Sprint(prefix, i)
				edits = append(edits, edit{offset(field.Type.Pos()), offset(field.Type.Pos()), name + " "})
				names = append(names, name)
			}
			for j, ident := range field.Names {
				name := ident.Name
				if name == "_" {
					name = fmt.Sprint(prefix, i, "_", j)
					edits = append(edits, edit{offset(ident.Pos()), offset(ident.End()), name})
				}
				names = append(names, name)
			}
		}
		return names
	}
	target := copied
	if receiver := named(f.Recv, "remitreceiver"); len(receiver) > 0 {
		target = receiver[0] + "." + copied
	}
	if types := named(f.Type.TypeParams, ""); len(types) > 0 {
		target += "[" + strings.Join(types, ", ") + "]"
	}
	args := strings.Join(named(f.Type.Params, "remitarg"), ", ")
	if n := len(f.Type.Params.List); n > 0 {
		if _, variadic := f.Type.Params.List[n-1].Type.(*ast.Ellipsis); variadic {
			args += "..."
		}
	}
	if f.Type.Results == nil {
		return edits, target + "(" + args + "); return"
	}
	return edits, "return " + target + "(" + args + ")"
}

// writeOverlay writes the changed files.
func (b bench) writeOverlay(s *switched, edits map[string][]edit) error {
	replace := map[string]string{}
	add := func(file, text string) error {
		path := filepath.Join(b.dir, fmt.Sprintf("switched%d.go", len(replace)))
		replace[filepath.Join(b.root, file)] = path
		return os.WriteFile(path, []byte(text), 0o600)
	}
	for file, list := range edits {
		original, err := os.ReadFile(filepath.Join(b.root, file))
		if err != nil {
			return err
		}
		text, err := applied(original, list)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := add(file, text); err != nil {
			return err
		}
	}
	if err := add(activeFile, activeText); err != nil {
		return err
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	s.overlay = filepath.Join(b.dir, "switched.json")
	return os.WriteFile(s.overlay, content, 0o600)
}

// applied returns a text with edits, and with the import of the package that contains the number of the active mutant.
func applied(text []byte, edits []edit) (string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, parser.PackageClauseOnly)
	if err != nil {
		return "", err
	}
	after := int(parsed.Name.End()) - 1
	edits = append(edits, edit{after, after, fmt.Sprintf("; import remitactive %q", activeImport)})
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	at := 0
	for i, e := range edits {
		if i > 0 && e == edits[i-1] { // the same argument gets a name for each mutant of its function
			continue
		}
		out.Write(text[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(text[at:])
	return out.String(), nil
}

// compileTests compiles the test of each package.
func (b bench) compileTests(ctx context.Context, s *switched, parallel int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for pkg := range s.tests {
		path := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "_")+".test")
		s.tests[pkg] = path
		group.Go(func() error {
			if out, err := b.command(ctx, "go", "test", "-c", "-vet=off", linkOptions, "-overlay="+s.overlay, "-o", path, "./"+pkg).CombinedOutput(); err != nil {
				return fmt.Errorf("compile the tests of %s with all mutants: %w\n%s", pkg, err, out)
			}
			return nil
		})
	}
	return group.Wait()
}

// test runs the killer of a mutant that is compiled together with others.
func (s switched) test(ctx context.Context, b bench, m mutants.Mutant) ([]byte, error) {
	c := b.command(ctx, s.tests[m.Killer.Package], "-test.run=^("+m.Killer.Test+")$", "-test.timeout=20m", "-test.paniconexit0")
	c.Dir = filepath.Join(b.root, m.Killer.Package)
	c.Env = append(c.Environ(), fmt.Sprintf("%s=%d", variable, s.numbers[m.Name]))
	return c.CombinedOutput()
}
