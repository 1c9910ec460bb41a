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

func TestImportsFollowTheLayers(t *testing.T) {
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
		{name: "a controller may use its own subpackages", from: "pkg/controller/csv", to: "pkg/controller/csv/phase"},
		{name: "the controller lists may use controllers", from: "pkg/controller", to: "pkg/controller/csv"},
		{name: "a command may use the controller lists", from: "cmd/olm", to: "pkg/controller"},
		{name: "a test directory may use anything", from: "test/e2e", to: "pkg/controller"},
		{name: "a package's tests may use fixtures", from: "pkg/step", to: "test/env", inTest: true},
		{name: "the demo may start the control plane", from: "cmd/kubectl-remit/run", to: "test/env/controlplane"},

		{name: "lib must not use the model", from: "pkg/lib/scoped", to: "pkg/rbac",
			wantErr: "pkg/lib/scoped (1 lib) imports pkg/rbac (2 model)"},
		{name: "the model must not use an engine", from: "pkg/catalog", to: "pkg/catalog/fbc",
			wantErr: "pkg/catalog (2 model) imports pkg/catalog/fbc (3 engine)"},
		{name: "an engine must not use a controller", from: "pkg/step/execute", to: "pkg/controller/installplan",
			wantErr: "pkg/step/execute (3 engine) imports pkg/controller/installplan (4 controller/<kind>)"},
		{name: "a controller must not use the controller lists", from: "pkg/controller/csv", to: "pkg/controller",
			wantErr: "pkg/controller/csv (4 controller/<kind>) imports pkg/controller (5 controller)"},
		{name: "the controller lists must not use commands", from: "pkg/controller", to: "cmd/olm", wantErr: "(5 cmd)"},
		{name: "a test must not import upward", from: "pkg/rbac", to: "pkg/resolver", inTest: true,
			wantErr: "pkg/rbac (2 model) imports pkg/resolver (3 engine)"},
		{name: "a controller must not use another controller", from: "pkg/controller/csv", to: "pkg/controller/subscription",
			wantErr: "must not import another controller"},
		{name: "product code must not use fixtures", from: "pkg/step", to: "test/env", wantErr: "(test)"},
		{name: "other commands must not start the control plane", from: "cmd/olm", to: "test/env/controlplane", wantErr: "(test)"},
		{name: "no package may import the control plane", from: "test/env/controlplane", to: "controlplane",
			wantErr: "controlplane must not be imported"},
		{name: "a new directory needs a layer", from: "pkg/util", to: "pkg/rbac", wantErr: "pkg/util has no layer"},
		{name: "a new directory needs a layer before it is used", from: "cmd/olm", to: "pkg/util", wantErr: "pkg/util, which has no layer"},
		{name: "names must not import other packages of Remit", from: "pkg/lib/names", to: "pkg/lib/apply", wantErr: "it must not import other packages of Remit"},
		{name: "every layer may use the API types", from: "pkg/lib/status", to: "api/v1"},
		{name: "the API types must not import other packages of Remit", from: "api/v1", to: "pkg/lib/names", wantErr: "it must not import other packages of Remit"},
		{name: "scopedcache must not import other packages of Remit", from: "pkg/lib/scopedcache", to: "pkg/lib/names", wantErr: "it must not import other packages of Remit"},
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
		{name: "lib's tests may use other libraries", from: "pkg/lib/scoped", to: "github.com/stretchr/testify/require", inTest: true},
		{name: "controllers may use controller-runtime", from: "pkg/controller/csv", to: "sigs.k8s.io/controller-runtime"},
		{name: "engines may use controller-runtime's client", from: "pkg/step", to: "sigs.k8s.io/controller-runtime/pkg/client"},

		{name: "names must not use Kubernetes libraries", from: "pkg/lib/names", to: "k8s.io/api/core/v1", wantErr: "names may only import the standard library"},
		{name: "lib must not use other libraries", from: "pkg/lib/apply", to: "github.com/sirupsen/logrus", wantErr: "only use Kubernetes and API-type libraries"},
		{name: "engines must not use managers", from: "pkg/step", to: "sigs.k8s.io/controller-runtime/pkg/manager", wantErr: "must not use managers"},
		{name: "no package may use k8s.io/kubernetes", from: "test/e2e", to: "k8s.io/kubernetes/pkg/apis/rbac", inTest: true,
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

// list returns the packages of the product module according to go list. The go command does not track this dependency, so the
// test must run with -count=1, as `make test` does for all of test/.
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
