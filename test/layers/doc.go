// Package layers holds the test that keeps imports going one way: each layer of docs/ARCHITECTURE.md
// may import only the layers below it. It reads the product module's real imports from `go list`,
// so what it says cannot drift from the code; depguard in .golangci.yml says the same while a line
// is typed. A package that the table does not know fails too: a new folder needs a decision.
//
// Nothing imports this package. The rule itself is layers.go, proven on synthetic imports.
package layers
