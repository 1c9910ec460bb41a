// Package forge creates bundles and catalogs with arbitrary bytes: everything that a catalog's author can write, valid
// or not.
package forge
