// Package injection generates the places of Kubernetes objects, catalogs and configurations into which others can write a string, and
// strings that try to be more than a string: YAML documents, comments, terminal sequences and Markdown blocks. It also checks that an
// output is not affected by them (security model, rule 9).
//
// The tests of this package put each string into each place and check what Remit writes without a cluster. The command line has such a
// test of its own, and rows 300 and 301 of the escape suite do the same in a cluster.
package injection
