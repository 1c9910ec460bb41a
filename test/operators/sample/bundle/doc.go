// Package bundle holds the sample operator's bundle, as its author would publish it (registry+v1:
// manifests and metadata), embedded so that the demonstration and the tests need no files around.
// It only holds the bytes; reading a bundle is the business of pkg/bundle and the catalog.
package bundle
