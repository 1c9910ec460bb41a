// Package mutants defines mutants: changes that each break one guard of the product, with the test that must detect the change.
// A mutant replaces text that occurs exactly once in a file. It does not change the repository: the go command reads the
// changed file through an overlay. `make mutants` runs all mutants, and `make mutants MUTANTS='name|name'` only some.
//
// The unit tests of this package check that the text and the test of each mutant exist. If you move a guard, update its
// mutant.
package mutants
