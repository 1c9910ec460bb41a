// Package image reads images from registries: manifests, and layers as streams whose digests are verified. It supports the
// installation's mirrors and certificate authorities, and pull secrets.
//
// Registries are not trusted: all responses are limited in size, plain HTTP is used only if allowed, data outside the registry
// is not read, and only the codes of error responses are reported.
//
// It does not interpret the content of images. pkg/bundle/unpack (bundles) and pkg/catalog/layer (file-based catalogs) do so,
// with their own limits.
package image
