// Package source reads the bundle that a command is about, by the very code by which Remit reads it
// out of a catalog, and says where, as whom and for which namespaces it is to be installed.
package source
