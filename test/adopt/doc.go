// Package adopt tests "kubectl remit adopt" on a cluster that contains what OLM v0 leaves behind: objects with its
// labels, annotations, owner references, names and field managers, as OLM v0 sets them.
package adopt
