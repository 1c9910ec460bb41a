package layers

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the product module; nested modules (controlplane, hack/tools) are not part of it.
const Module = "github.com/remit-olm/remit"

// layer is a position in the order of imports: a package may import packages of its own layer and of all earlier
// layers.
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

// place assigns a layer to a pattern: a path or, with a trailing "/...", a path and everything below it.
type place struct {
	pattern string
	layer   layer
}

// table assigns layers to directories. The first matching pattern applies.
var table = []place{
	{"api/...", lib},
	{"pkg/lib/...", lib},

	{"pkg/catalog", model},
	{"pkg/catalog/versions", model},
	{"pkg/resolver/sat", model},
	{"pkg/bundle", model},
	{"pkg/rbac", model},
	{"pkg/install/cert", model},

	{"pkg/resolver", engine},
	{"pkg/catalog/...", engine},
	{"pkg/packages/...", engine},
	{"pkg/image", engine},
	{"pkg/bundle/unpack/...", engine},
	{"pkg/step/...", engine},
	{"pkg/install/...", engine},
	{"pkg/preflight/...", engine},
	{"pkg/extension/...", engine},

	{"pkg/controller/kit/...", kit},
	{"pkg/controller", lists},
	{"pkg/controller/...", kind},

	{"manifests/...", lists}, // data that commands and tests render
	{"cmd/...", command},
	{"examples/...", tests},
	{"test/...", tests},
}

// exceptions lists the intentional upward imports with their reasons.
var exceptions = []struct{ from, to, reason string }{
	{"cmd/kubectl-remit/...", "test/env/controlplane", "the demo starts the embedded control plane"},
	{"cmd/kubectl-remit/...", "test/env/registry", "the demo serves the documentation's catalog from an image registry"},
	{"cmd/kubectl-remit/...", "test/operators/sample/bundle", "the demo installs the sample operator"},
}

// Import is one import, with both paths as `go list` prints them.
type Import struct {
	From, To string
	// InTest is true if only the package's tests have the import.
	InTest bool
}

// Check returns an error if an import violates the rules.
func Check(i Import) error {
	from, to := strings.TrimPrefix(i.From, Module+"/"), strings.TrimPrefix(i.To, Module+"/")
	fromLayer, toLayer := layerOf(from), layerOf(to)
	switch {
	case fromLayer == none:
		return fmt.Errorf("%s has no layer: add it to the table in test/layers", from)
	case to == i.To:
		return checkForeign(from, i)
	case under(to, "controlplane/..."):
		return fmt.Errorf("%s (%s) imports %s: controlplane must not be imported, but used as a process through its kubeconfig", from, fromLayer, to)
	case toLayer == none:
		return fmt.Errorf("%s (%s) imports %s, which has no layer: add it to the table in test/layers", from, fromLayer, to)
	case upward(fromLayer, toLayer, i.InTest) && !excepted(from, to):
		return fmt.Errorf("%s (%s) imports %s (%s): only packages of the same or an earlier layer may be imported", from, fromLayer, to, toLayer)
	}
	return checkSiblings(from, to, i.InTest)
}

// upward reports whether an import goes to a later layer. A package's own tests may use the builders and fixtures in
// test/.
func upward(from, to layer, inTest bool) bool {
	if inTest && to == tests {
		return false
	}
	return to > from
}

// checkSiblings returns an error for imports that the order of the layers allows but another rule forbids.
func checkSiblings(from, to string, inTest bool) error {
	switch {
	case tree(from) == tree(to):
		return nil
	case layerOf(from) == kind && layerOf(to) == kind:
		return fmt.Errorf("%s imports %s: a controller must not import another controller", from, to)
	case standsAlone(from) && !inTest:
		return fmt.Errorf("%s imports %s: it must not import other packages of Remit", from, to)
	}
	return nil
}

// managers lists packages that layers 1 to 3 must not import: code in these layers acts only through a client that is
// passed to it.
var managers = []string{
	"sigs.k8s.io/controller-runtime",
	"sigs.k8s.io/controller-runtime/pkg/builder/...",
	"sigs.k8s.io/controller-runtime/pkg/controller/...",
	"sigs.k8s.io/controller-runtime/pkg/manager/...",
	"k8s.io/client-go/util/workqueue",
}

// libraries lists what layer 1 may import in addition to the standard library.
var libraries = []string{
	"k8s.io/...",
	"sigs.k8s.io/...",
	"github.com/go-logr/logr/...",
	"github.com/operator-framework/api/...",
}

// loggers lists packages that only pkg/lib/logging may use. All others log through logr.
var loggers = []string{
	"github.com/sirupsen/logrus",
	"github.com/bombsimon/logrusr/...",
}

// controllerLibraries lists the libraries in layer 1 that are written for controllers and may therefore use
// controller-runtime.
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
		return fmt.Errorf("%s imports %s: names may only import the standard library", from, i.To)
	case from == "pkg/lib/logging" && underAny(i.To, loggers):
		return nil
	case slices.Contains(controllerLibraries, from):
		return nil
	case l == lib && !underAny(i.To, libraries):
		return fmt.Errorf("%s (%s) imports %s: lib may only use Kubernetes and API-type libraries", from, l, i.To)
	case l >= lib && l <= engine && underAny(i.To, managers):
		return fmt.Errorf("%s (%s) imports %s: layers 1 to 3 must not use managers, queues or controllers", from, l, i.To)
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

// standsAlone reports whether a library must not import other packages of Remit.
func standsAlone(path string) bool {
	return path == "pkg/lib/names" || under(path, "pkg/lib/scopedcache/...") || under(path, "api/...")
}

// tree returns the first three elements of a path, for example pkg/controller/csv for everything below it.
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
