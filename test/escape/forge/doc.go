// Package forge creates bundles and catalogs with arbitrary content, byte for byte: everything that a catalog's author
// can write, valid or not.
package forge
