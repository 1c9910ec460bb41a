package layers

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the product module; nested modules (controlplane, hack/tools) are not part of it.
const Module = "github.com/remit-olm/remit"

// A layer may import itself and every layer before it.
type layer int

const (
	none layer = iota
	lib
	model
	engine
	kit
	kind
	lists
	command
	tests
)

func (l layer) String() string {
	return [...]string{
		"no layer",
		"1 lib",
		"2 model",
		"3 engine",
		"4 controller/kit",
		"4 controller/<kind>",
		"5 controller",
		"5 cmd",
		"test",
	}[l]
}

// place is a path or, with a trailing "/...", a path and everything below it.
type place struct {
	pattern string
	layer   layer
}

// table is searched from the top, and the first match applies.
var table = []place{
	{"pkg/lib/...", lib},

	{"pkg/catalog", model},
	{"pkg/resolver/sat", model},
	{"pkg/bundle", model},
	{"pkg/rbac", model},
	{"pkg/install/cert", model},

	{"pkg/resolver", engine},
	{"pkg/catalog/...", engine},
	{"pkg/image", engine},
	{"pkg/bundle/unpack/...", engine},
	{"pkg/step/...", engine},
	{"pkg/install/...", engine},
	{"pkg/preflight/...", engine},

	{"pkg/controller/kit", kit},
	{"pkg/controller", lists},
	{"pkg/controller/...", kind},

	{"manifests/...", lists}, // data that commands and tests render
	{"cmd/...", command},
	{"examples/...", tests},
	{"test/...", tests},
}

// exceptions are the intended upward imports, each with its reason.
var exceptions = []struct{ from, to, reason string }{
	{"cmd/kubectl-remit/...", "test/env/controlplane", "the demonstration starts the embedded control plane"},
	{"cmd/kubectl-remit/...", "test/env/registry", "the demonstration serves the documentation's catalog from a registry of images"},
	{"cmd/kubectl-remit/...", "test/operators/sample/bundle", "the demonstration installs the sample operator"},
}

// Import is one import statement: both paths as `go list` gives them.
type Import struct {
	From, To string
	// InTest is set for an import that only the package's tests have.
	InTest bool
}

// Check returns what is wrong with an import, or nil.
func Check(i Import) error {
	from, to := strings.TrimPrefix(i.From, Module+"/"), strings.TrimPrefix(i.To, Module+"/")
	fromLayer, toLayer := layerOf(from), layerOf(to)
	switch {
	case fromLayer == none:
		return fmt.Errorf("%s is in no layer: add it to the table in test/layers", from)
	case to == i.To:
		return checkForeign(from, i)
	case under(to, "controlplane/..."):
		return fmt.Errorf("%s (%s) imports %s: nothing imports controlplane, the seam is a process and a kubeconfig", from, fromLayer, to)
	case toLayer == none:
		return fmt.Errorf("%s (%s) imports %s, which is in no layer: add it to the table in test/layers", from, fromLayer, to)
	case upward(fromLayer, toLayer, i.InTest) && !excepted(from, to):
		return fmt.Errorf("%s (%s) imports %s (%s): imports go only to the same or an earlier layer", from, fromLayer, to, toLayer)
	}
	return checkSiblings(from, to, i.InTest)
}

// upward lets a package's own tests use the builders and fixtures of test/.
func upward(from, to layer, inTest bool) bool {
	if inTest && to == tests {
		return false
	}
	return to > from
}

// checkSiblings rejects imports that the order of layers alone would allow.
func checkSiblings(from, to string, inTest bool) error {
	switch {
	case tree(from) == tree(to):
		return nil
	case layerOf(from) == kind && layerOf(to) == kind:
		return fmt.Errorf("%s imports %s: a controller never imports another controller", from, to)
	case standsAlone(from) && !inTest:
		return fmt.Errorf("%s imports %s: it stands alone", from, to)
	}
	return nil
}

// managers are what layers 1 to 3 must not know: they act through a client that they are given.
var managers = []string{
	"sigs.k8s.io/controller-runtime",
	"sigs.k8s.io/controller-runtime/pkg/builder/...",
	"sigs.k8s.io/controller-runtime/pkg/controller/...",
	"sigs.k8s.io/controller-runtime/pkg/manager/...",
	"k8s.io/client-go/util/workqueue",
}

// libraries are what layer 1 may use in addition to the standard library.
var libraries = []string{
	"k8s.io/...",
	"sigs.k8s.io/...",
	"github.com/go-logr/logr/...",
	"github.com/operator-framework/api/...",
}

// loggers may only be used by pkg/lib/logging: all others log through logr.
var loggers = []string{
	"github.com/sirupsen/logrus",
	"github.com/bombsimon/logrusr/...",
}

// controllerLibraries are the libraries of layer 1 that are written for controllers: their queue, and a cache.
var controllerLibraries = []string{"pkg/lib/fairqueue", "pkg/lib/scopedcache"}

func checkForeign(from string, i Import) error {
	l := layerOf(from)
	standard := !strings.Contains(strings.Split(i.To, "/")[0], ".")
	switch {
	case under(i.To, "k8s.io/kubernetes/..."):
		return fmt.Errorf("%s (%s) imports %s: only the controlplane module may", from, l, i.To)
	case i.InTest || standard:
		return nil
	case from == "pkg/lib/names":
		return fmt.Errorf("%s imports %s: names imports nothing", from, i.To)
	case from == "pkg/lib/logging" && underAny(i.To, loggers):
		return nil
	case slices.Contains(controllerLibraries, from):
		return nil
	case l == lib && !underAny(i.To, libraries):
		return fmt.Errorf("%s (%s) imports %s: lib uses Kubernetes and API-type libraries only", from, l, i.To)
	case l >= lib && l <= engine && underAny(i.To, managers):
		return fmt.Errorf("%s (%s) imports %s: layers 1 to 3 know no manager, queue or controller", from, l, i.To)
	}
	return nil
}

func layerOf(path string) layer {
	for _, p := range table {
		if under(path, p.pattern) {
			return p.layer
		}
	}
	return none
}

// standsAlone names the libraries that can be used without the rest of Remit.
func standsAlone(path string) bool {
	return path == "pkg/lib/names" || under(path, "pkg/lib/scopedcache/...")
}

// tree is the first three elements of a path: pkg/controller/csv for all that lies under it.
func tree(path string) string {
	elements := strings.SplitN(path, "/", 4)
	return strings.Join(elements[:min(3, len(elements))], "/")
}

func excepted(from, to string) bool {
	for _, e := range exceptions {
		if under(from, e.from) && under(to, e.to) {
			return true
		}
	}
	return false
}

func underAny(path string, patterns []string) bool {
	for _, pattern := range patterns {
		if under(path, pattern) {
			return true
		}
	}
	return false
}

func under(path, pattern string) bool {
	root, subtree := strings.CutSuffix(pattern, "/...")
	return path == root || subtree && strings.HasPrefix(path, root+"/")
}
