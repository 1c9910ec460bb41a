// Package escape contains the escape suite: hostile bundles, catalogs, accounts and edits, each in its own namespace on
// a real API server. After every row, package oracle checks the whole cluster, regardless of the row's subject.
//
// Rows are numbered as in the suite's specification, with gaps. A letter after a number marks a variant of the same
// escape that the specification does not list. docs/escape-suite.md explains how to add a row.
package escape
