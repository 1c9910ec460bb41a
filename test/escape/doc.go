// Package escape has the escape suite: hostile bundles, catalogs, accounts and edits, each on a namespace of
// its own, on a real API server. After every row the whole world is judged by package oracle, whatever the
// row was about.
//
// Rows carry the numbers of the suite's specification, which has gaps; a letter after a number is another way
// to the same escape that the specification does not list. docs/escape-suite.md says how to add one.
package escape
