// Package layers contains the test that enforces the direction of imports: a package may import only packages of its
// own layer and of the layers above it in the table of docs/ARCHITECTURE.md. The test reads the product module's actual
// imports from `go list`, so it cannot diverge from the code. depguard in .golangci.yml reports the same violations in
// an editor. The test also fails for packages that are not in the table in layers.go: assign a layer to each new
// directory.
//
// No other package imports this one. The rules are in layers.go and are also tested with synthetic imports.
package layers
