package layers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImportsGoOneWay(t *testing.T) {
	packages := list(t)
	require.NotEmpty(t, packages)
	for _, p := range packages {
		for _, i := range p.imports() {
			if err := Check(i); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, from, to string
		inTest         bool
		wantErr        string
	}{
		{name: "an engine may use the model", from: "pkg/resolver", to: "pkg/catalog"},
		{name: "an engine may use another engine", from: "pkg/resolver", to: "pkg/step/build"},
		{name: "a controller may use an engine", from: "pkg/controller/csv", to: "pkg/install/deployment"},
		{name: "a controller may use its own parts", from: "pkg/controller/csv", to: "pkg/controller/csv/phase"},
		{name: "the lists may use controllers", from: "pkg/controller", to: "pkg/controller/csv"},
		{name: "a command may use the lists", from: "cmd/olm", to: "pkg/controller"},
		{name: "a test folder may use anything", from: "test/e2e", to: "pkg/controller"},
		{name: "a package's tests may use fixtures", from: "pkg/step", to: "test/env", inTest: true},
		{name: "the demonstration may start the control plane", from: "cmd/kubectl-remit/run", to: "test/env/controlplane"},

		{name: "lib below model", from: "pkg/lib/scoped", to: "pkg/rbac",
			wantErr: "pkg/lib/scoped (1 lib) imports pkg/rbac (2 model)"},
		{name: "model below engine", from: "pkg/catalog", to: "pkg/catalog/fbc",
			wantErr: "pkg/catalog (2 model) imports pkg/catalog/fbc (3 engine)"},
		{name: "engine below controllers", from: "pkg/step/execute", to: "pkg/controller/installplan",
			wantErr: "pkg/step/execute (3 engine) imports pkg/controller/installplan (4 controller/<kind>)"},
		{name: "controllers below the lists", from: "pkg/controller/csv", to: "pkg/controller",
			wantErr: "pkg/controller/csv (4 controller/<kind>) imports pkg/controller (5 controller)"},
		{name: "the lists below commands", from: "pkg/controller", to: "cmd/olm", wantErr: "(5 cmd)"},
		{name: "an upward import in a test is no better", from: "pkg/rbac", to: "pkg/resolver", inTest: true,
			wantErr: "pkg/rbac (2 model) imports pkg/resolver (3 engine)"},
		{name: "no controller uses another", from: "pkg/controller/csv", to: "pkg/controller/subscription",
			wantErr: "never imports another controller"},
		{name: "products do not use fixtures", from: "pkg/step", to: "test/env", wantErr: "(test)"},
		{name: "other commands have no exception", from: "cmd/olm", to: "test/env/controlplane", wantErr: "(test)"},
		{name: "nothing uses the control plane", from: "test/env/controlplane", to: "controlplane",
			wantErr: "nothing imports controlplane"},
		{name: "a new folder needs a layer", from: "pkg/util", to: "pkg/rbac", wantErr: "pkg/util is in no layer"},
		{name: "a new folder needs a layer to be used", from: "cmd/olm", to: "pkg/util", wantErr: "pkg/util, which is in no layer"},
		{name: "names imports nothing", from: "pkg/lib/names", to: "pkg/lib/apply", wantErr: "it stands alone"},
		{name: "scopedcache stands alone", from: "pkg/lib/scopedcache", to: "pkg/lib/names", wantErr: "it stands alone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requireCheck(t, Import{From: Module + "/" + tc.from, To: Module + "/" + tc.to, InTest: tc.inTest}, tc.wantErr)
		})
	}
}

func TestCheckForeignImports(t *testing.T) {
	for _, tc := range []struct {
		name, from, to string
		inTest         bool
		wantErr        string
	}{
		{name: "lib may use API types", from: "pkg/lib/scoped", to: "github.com/operator-framework/api/pkg/operators/v1"},
		{name: "lib may use the standard library", from: "pkg/lib/names", to: "net/http"},
		{name: "logging may use the logger", from: "pkg/lib/logging", to: "github.com/sirupsen/logrus"},
		{name: "lib's tests may use others", from: "pkg/lib/scoped", to: "github.com/stretchr/testify/require", inTest: true},
		{name: "controllers may use the framework", from: "pkg/controller/csv", to: "sigs.k8s.io/controller-runtime"},
		{name: "engines may use its client", from: "pkg/step", to: "sigs.k8s.io/controller-runtime/pkg/client"},

		{name: "names imports nothing", from: "pkg/lib/names", to: "k8s.io/api/core/v1", wantErr: "names imports nothing"},
		{name: "lib uses no other library", from: "pkg/lib/apply", to: "github.com/sirupsen/logrus", wantErr: "API-type libraries only"},
		{name: "engines know no manager", from: "pkg/step", to: "sigs.k8s.io/controller-runtime/pkg/manager", wantErr: "no manager"},
		{name: "nothing uses k8s.io/kubernetes", from: "test/e2e", to: "k8s.io/kubernetes/pkg/apis/rbac", inTest: true,
			wantErr: "only the controlplane module may"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requireCheck(t, Import{From: Module + "/" + tc.from, To: tc.to, InTest: tc.inTest}, tc.wantErr)
		})
	}
}

func requireCheck(t *testing.T, i Import, wantErr string) {
	t.Helper()
	err := Check(i)
	if wantErr == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, wantErr)
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func (p listed) imports() []Import {
	var all []Import
	for _, to := range p.Imports {
		all = append(all, Import{From: p.ImportPath, To: to})
	}
	for _, to := range append(p.TestImports, p.XTestImports...) {
		if to != p.ImportPath {
			all = append(all, Import{From: p.ImportPath, To: to, InTest: true})
		}
	}
	return all
}

// list asks go for the packages of the product module. The go command cannot see that this test
// depends on them, so it has to run with -count=1, as `make test` does for all of test/.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", Module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())

	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
}
