// Package image reads images from registries: it reads manifests, and streams layers while verifying their digests. It supports
// pull secrets, and the mirrors and certificate authorities that the administrator configures.
//
// Registries are not trusted: the size of all responses is limited, plain HTTP is used only where it is allowed, data that
// a manifest stores outside the registry is not read, and only the codes of error responses are reported.
//
// The package does not interpret the content of images. pkg/bundle/unpack (bundles) and pkg/catalog/layer (file-based
// catalogs) interpret it, with their own limits.
package image
