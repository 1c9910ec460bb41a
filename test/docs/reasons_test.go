package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documented lists, for each page, the constants that the page must mention.
var documented = []struct{ page, dir, names string }{
	{"catalogsource", apiDir, `^CatalogSource\w+Error$`},
	{"catalogsource", "pkg/controller/catalogsource", `^(typePackages|reasonInvalidPackages)`},
	{"clustercatalog", "api/v1", `^(TypeServing|TypeProgressing|ReasonAvailable|ReasonUnavailable|ReasonUserSpecifiedUnavailable|ReasonSucceeded|ReasonRetrying|ReasonBlocked)$`},
	{"clusterextension", "api/v1", `^(Type(Installed|Authorized|Available|\w*Deprecated)|Reason(Succeeded|RollingOut|Retrying|Blocked|InvalidConfiguration|ProgressDeadlineExceeded|Failed|Absent|Deprecated|NotDeprecated|DeprecationStatusUnknown|MissingPermissions|IdentityNotFound|IdentityReserved|NotEnrolled|EvaluationIncomplete))$`},
	{"operatorgroup", "pkg/controller/operatorgroup", `^(Reason|MultipleOperatorGroup|OperatorGroupServiceAccount|AccountUsable|AccountChanged|TargetsKnown|TargetNotAllowed)`},
	{"operatorgroup", "pkg/lib/scoped", `^(NoAccount|AccountNameInvalid|AccountReserved|AccountMissing|AccountNotEnrolled|AccountHoldsTooMuch)$`},
	{"subscription", "pkg/controller/subscription", `^(reason|type)`},
	{"subscription", "pkg/resolver", `^(ConstraintsNotSatisfiable|ErrorPreventedResolution|NoUpgradeInChannel|UpgradeClashes)$`},
	{"installplan", "pkg/controller/installplan", `^(reason|type)`},
	{"clusterserviceversion", "pkg/controller/csv", `^(reason|phase)`},
	{"clusterserviceversion", "pkg/controller/copiedcsv", `^eventCollision$`},
	{"olmconfig", "pkg/controller/copiedcsv", `^reason`},
	{"operatorcondition", "pkg/controller/operatorcondition", `^(condition|reason)`},
	{"clusterserviceversion", "pkg/lib/scoped", `^Account(NameInvalid|Reserved|Missing|NotEnrolled|Changed|HoldsTooMuch)$`},
}

// apiDir is a placeholder for the directory of v1alpha1 in the API module.
const apiDir = "operatorsv1alpha1"

// apiDirV1 is a placeholder for the directory of v1 in the API module.
const apiDirV1 = "operatorsv1"

func TestEveryReasonOfTheCodeIsOnItsPage(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	for _, c := range documented {
		text, err := os.ReadFile(filepath.Join(root, "docs/kinds", c.page+".md"))
		require.NoError(t, err)
		found := 0
		for name, expr := range s.constants(t, c.dir) {
			value, ok := s.value(t, c.dir, expr)
			if !ok || value == "" || !regexp.MustCompile(c.names).MatchString(name) {
				continue
			}
			found++
			assert.Truef(t, strings.Contains(string(text), "`"+value+"`"), "docs/kinds/%s.md does not mention %q: %s.%s", c.page, value, c.dir, name)
		}
		assert.NotZerof(t, found, "%s of %s", c.names, c.dir)
	}
}

// sources caches the constant declarations of packages, keyed by directory.
type sources struct {
	api    string
	parsed map[string]map[string]ast.Expr
}

func newSources(t *testing.T) *sources {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/operator-framework/api")
	cmd.Dir = root
	dir, err := cmd.Output()
	require.NoError(t, err)
	return &sources{
		api:    filepath.Join(strings.TrimSpace(string(dir)), "pkg/operators/v1alpha1"),
		parsed: map[string]map[string]ast.Expr{},
	}
}

func (s *sources) constants(t *testing.T, dir string) map[string]ast.Expr {
	t.Helper()
	if found, ok := s.parsed[dir]; ok {
		return found
	}
	path := filepath.Join(root, dir)
	switch dir {
	case apiDir:
		path = s.api
	case apiDirV1:
		path = filepath.Join(s.api, "../v1")
	}
	files, err := fs.Glob(os.DirFS(path), "*.go")
	require.NoError(t, err)
	out := map[string]ast.Expr{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(path, file), nil, 0)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			collect(decl, out)
		}
	}
	s.parsed[dir] = out
	return out
}

func collect(decl ast.Decl, out map[string]ast.Expr) {
	group, ok := decl.(*ast.GenDecl)
	if !ok || group.Tok != token.CONST {
		return
	}
	for _, spec := range group.Specs {
		if values, ok := spec.(*ast.ValueSpec); ok {
			for i, value := range values.Values {
				out[values.Names[i].Name] = value
			}
		}
	}
}

// value returns the value of a string constant; ok is false for any other expression.
func (s *sources) value(t *testing.T, dir string, expr ast.Expr) (text string, ok bool) {
	t.Helper()
	switch e := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.CallExpr: // a conversion
		return s.value(t, dir, e.Args[0])
	case *ast.Ident:
		return s.value(t, dir, s.constants(t, dir)[e.Name])
	case *ast.SelectorExpr:
		from, isIdent := e.X.(*ast.Ident)
		if !isIdent {
			return "", false
		}
		if from.Name != apiDir {
			return s.value(t, "pkg/lib/"+from.Name, s.constants(t, "pkg/lib/"+from.Name)[e.Sel.Name])
		}
		return s.value(t, apiDir, s.constants(t, apiDir)[e.Sel.Name])
	}
	return "", false
}
