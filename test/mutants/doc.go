// Package mutants breaks the product on purpose, one guard at a time, and names the test that must detect it. A mutant
// is a text that occurs exactly once in a file, and its replacement. Files are not copied: the go command reads them
// through an overlay. `make mutants` runs all mutants, `make mutants MUTANTS='name|name'` some.
//
// The unit tests of this package check that the text and the test of each mutant exist. If you move a guard, update its
// mutant.
package mutants
