// Package mutants breaks the product on purpose, one guard at a time, and names the test that has to notice. A mutant is a
// piece of text that stands in a file exactly once, and what takes its place; nothing is copied, the go command reads the
// file through an overlay. `make mutants` runs all of them, `make mutants MUTANTS='name|name'` some.
//
// The unit tests of this package see that each mutant still has its text and its test. Whoever moves a guard moves its
// mutant.
package mutants
