// Package source reads the bundle that a command is about, with the code that Remit uses to read it from a
// catalog, and determines the namespace, the account and the targets of its install.
package source
