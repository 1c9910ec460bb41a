// Package source reads the bundle that a command works on, with the code that Remit uses to read bundles from
// catalogs, and determines the namespace, the account and the targets of the install.
package source
