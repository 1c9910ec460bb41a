// Package escape contains the escape suite: hostile bundles, catalogs, accounts and edits, each in its own namespace on
// a real API server. After every row, package oracle checks the whole cluster, regardless of the row's subject.
//
// Rows have the numbers of the suite's specification, which has gaps. A letter after a number marks another way to the
// same escape that the specification does not list. docs/escape-suite.md explains how to add a row.
package escape
