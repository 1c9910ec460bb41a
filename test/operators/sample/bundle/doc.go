// Package bundle embeds the sample operator's bundle, as its author would publish it (registry+v1: manifests and
// metadata), so that the demo and the tests need no files. It only contains the bytes; pkg/bundle and the catalog
// packages parse them.
package bundle
