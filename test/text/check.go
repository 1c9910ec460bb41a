package text

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const (
	// module is the product module.
	module = "github.com/remit-olm/remit"

	pkgMessage = module + "/pkg/lib/message"
	pkgStatus  = module + "/pkg/lib/status"
)

// Load type-checks the packages that match the patterns, without tests.
func Load(ctx context.Context, patterns ...string) ([]*packages.Package, error) {
	out, err := packages.Load(&packages.Config{
		Context: ctx,
		Mode:    packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	for _, p := range out {
		for _, problem := range p.Errors {
			err = errors.Join(err, problem)
		}
	}
	return out, err
}

// Check returns a line for each place in a package at which text for people does not come from package message.
func Check(p *packages.Package) []string {
	c := &checker{Package: p, path: strings.TrimPrefix(p.PkgPath, module+"/"), assigned: map[types.Object][]ast.Expr{}}
	for _, file := range p.Syntax {
		ast.Inspect(file, c.collect)
	}
	for _, file := range p.Syntax {
		ast.Inspect(file, c.visit)
	}
	return c.found
}

type checker struct {
	*packages.Package
	// path is the path of the package within the module.
	path string
	// assigned contains the values of each variable.
	assigned map[types.Object][]ast.Expr
	found    []string
}

// collect notes which values variables have.
func (c *checker) collect(n ast.Node) bool {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != len(assign.Rhs) {
		return true
	}
	for i, left := range assign.Lhs {
		if name, ok := left.(*ast.Ident); ok {
			if obj := c.TypesInfo.ObjectOf(name); obj != nil {
				c.assigned[obj] = append(c.assigned[obj], assign.Rhs[i])
			}
		}
	}
	return true
}

func (c *checker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		c.call(n)
	case *ast.CompositeLit:
		c.literal(n)
	case *ast.AssignStmt:
		c.assignment(n)
	}
	return true
}

const notWritten = "a message must be a constant or the result of status.Text"

func (c *checker) literal(n *ast.CompositeLit) {
	t := c.TypesInfo.TypeOf(n)
	if !c.isStatus(t) && !isEvent(t) {
		return
	}
	for _, element := range n.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if ok && (isNamed(pair.Key, "Message") || isNamed(pair.Key, "Note")) && !c.isSafe(pair.Value) {
			c.report(pair, notWritten)
		}
	}
}

// isEvent reports whether a type is an Event, which controllers leave to the recorder of package events.
func isEvent(t types.Type) bool {
	return isType(t, "k8s.io/api/core/v1", "Event") || isType(t, "k8s.io/api/events/v1", "Event")
}

func (c *checker) assignment(n *ast.AssignStmt) {
	for i, left := range n.Lhs {
		field, ok := left.(*ast.SelectorExpr)
		if !ok || field.Sel.Name != "Message" || !c.isStatus(c.TypesInfo.TypeOf(field.X)) {
			continue
		}
		if n.Tok != token.ASSIGN || len(n.Lhs) != len(n.Rhs) || !c.isSafe(n.Rhs[i]) {
			c.report(n, notWritten)
		}
	}
}

func (c *checker) call(n *ast.CallExpr) {
	function, ok := c.callee(n)
	if !ok {
		c.conversion(n)
		return
	}
	if strings.HasSuffix(function.Pkg().Path(), "/tools/record") {
		c.report(n, "controllers emit Events with package events")
		return
	}
	switch function.Name() {
	case "Eventf":
		if strings.HasSuffix(function.Pkg().Path(), "/events") && !c.isNote(n) {
			c.report(n, `the note of an Event must be "%s" and status.Note`)
		}
	case "SetRequirementStatus":
		if !c.calls(n.Args[0], "asLines") {
			c.report(n, "requirements must be the result of asLines")
		}
	case "SetPhase":
		if len(n.Args) == 4 && !c.isSafe(n.Args[2]) {
			c.report(n, notWritten)
		}
	default:
		if c.isCommand() && c.writes(n, function) {
			c.report(n, notPrinted)
		}
	}
}

const notPrinted = "commands write only with message.Fprintf and message.Fprintln"

func (c *checker) isCommand() bool { return strings.Contains("/"+c.path, "/cmd/") }

// conversion checks a call of something other than a function with a name: a conversion, or print and println.
func (c *checker) conversion(n *ast.CallExpr) {
	if name, ok := n.Fun.(*ast.Ident); ok && c.isCommand() && strings.HasPrefix(name.Name, "print") && c.TypesInfo.Types[n.Fun].IsBuiltin() {
		c.report(n, notPrinted)
	}
	to := c.TypesInfo.Types[n.Fun]
	if to.IsType() && isType(to.Type, pkgMessage, "Text", "Format") && c.TypesInfo.Types[n.Args[0]].Value == nil && c.path != "pkg/lib/message" {
		c.report(n, "only package message converts strings to its types")
	}
}

// isNote reports whether the arguments of Eventf end with the format "%s" and a note.
func (c *checker) isNote(n *ast.CallExpr) bool {
	if len(n.Args) != 7 || !c.isSafe(n.Args[6]) {
		return false
	}
	format := c.TypesInfo.Types[n.Args[5]].Value
	return format != nil && format.ExactString() == `"%s"`
}

// writes reports whether a call writes a string that may not be from package message.
func (c *checker) writes(n *ast.CallExpr, function *types.Func) bool {
	name := function.Name()
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	switch function.Pkg().Path() {
	case "fmt":
		return begins("Print") || begins("Fprint") && !c.inMemory(n.Args[0])
	case "io":
		return begins("Copy") || c.writesString(n, name, 1) && c.path != "cmd/kubectl-remit/internal/cli" || c.writesBytes(n, name) // its Writer
	case "bytes", "os", "bufio", "text/tabwriter":
		return c.writesString(n, name, 0) || c.writesBytes(n, name)
	case "encoding/json", "text/template":
		return begins("Encode", "Execute")
	case "log", "github.com/spf13/cobra":
		return begins("Print", "Fatal", "Panic")
	}
	return false
}

// writesString reports whether a call of WriteString writes an argument that is not constant.
func (c *checker) writesString(n *ast.CallExpr, name string, arg int) bool {
	return name == "WriteString" && c.TypesInfo.Types[n.Args[arg]].Value == nil
}

// writesBytes reports whether a call of a method Write writes bytes other than those of a bytes.Buffer, whose content is checked where it
// is written.
func (c *checker) writesBytes(n *ast.CallExpr, name string) bool {
	return name == "Write" && len(n.Args) == 1 && !c.calls(n.Args[0], "Bytes")
}

// inMemory reports whether a writer is a strings.Builder, whose text is written later.
func (c *checker) inMemory(writer ast.Expr) bool {
	pointer, ok := c.TypesInfo.TypeOf(writer).(*types.Pointer)
	return ok && isType(pointer.Elem(), "strings", "Builder")
}

func (c *checker) callee(n *ast.CallExpr) (*types.Func, bool) {
	fun := ast.Unparen(n.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	var name *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	default:
		return nil, false
	}
	function, ok := c.TypesInfo.Uses[name].(*types.Func)
	if !ok || function.Pkg() == nil {
		return nil, false
	}
	return function, true
}

// calls reports whether an expression is a call of a function with the name.
func (c *checker) calls(e ast.Expr, name string) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	function, ok := c.callee(call)
	return ok && function.Name() == name
}

// isSafe reports whether an expression is a constant, the result of a function of package status that writes text, or a variable
// that only has such values.
func (c *checker) isSafe(e ast.Expr) bool {
	e = ast.Unparen(e)
	if c.TypesInfo.Types[e].Value != nil {
		return true
	}
	switch e := e.(type) {
	case *ast.CallExpr:
		function, ok := c.callee(e)
		if ok && function.Pkg().Path() == "cmp" && function.Name() == "Or" {
			return !slices.ContainsFunc(e.Args, func(arg ast.Expr) bool { return !c.isSafe(arg) })
		}
		return ok && function.Pkg().Path() == pkgStatus && slices.Contains([]string{"Text", "Note"}, function.Name())
	case *ast.Ident:
		values := c.assigned[c.TypesInfo.ObjectOf(e)]
		return len(values) > 0 && !slices.ContainsFunc(values, func(v ast.Expr) bool { return !c.isSafe(v) })
	}
	return false
}

// isStatus reports whether a type is a condition or a status with a message. The message of a metav1.Status is an error's text. The
// messages in a RequirementStatus become lines when the status of the ClusterServiceVersion is written, which visit checks.
func (c *checker) isStatus(t types.Type) bool {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := t.(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return false
	}
	path, name := named.Obj().Pkg().Path(), named.Obj().Name()
	isAPI := strings.HasPrefix(path, "k8s.io/") || strings.HasPrefix(path, "github.com/operator-framework/api/") || path == module+"/api/v1"
	isRequirement := name == "RequirementStatus" || name == "DependentStatus"
	return isAPI && path != "k8s.io/apimachinery/pkg/apis/meta/v1" && strings.HasSuffix(name, "Status") && !isRequirement || isAPI && strings.HasSuffix(name, "Condition")
}

func isType(t types.Type, path string, names ...string) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && slices.Contains(names, named.Obj().Name())
}

func isNamed(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

func (c *checker) report(n ast.Node, why string) {
	position := c.Fset.Position(n.Pos())
	file := position.Filename[strings.LastIndex(position.Filename, "/")+1:]
	c.found = append(c.found, fmt.Sprintf("%s/%s:%d: %s", c.path, file, position.Line, why))
}
