// Package layers contains the test that enforces the direction of imports: each layer of docs/ARCHITECTURE.md may
// import only the layers below it. It reads the product module's actual imports from `go list`, so it cannot diverge
// from the code; depguard in .golangci.yml reports the same violations in an editor. A package that is not in the table
// also fails: assign a layer to each new directory.
//
// No other package imports this one. The rule itself is in layers.go, and is tested with synthetic imports.
package layers
