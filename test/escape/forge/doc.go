// Package forge makes bundles and catalogs of any content, byte for byte: what an author of catalogs may
// write, not what they should.
package forge
