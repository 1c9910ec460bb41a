// Package image reads images from registries: a manifest by its digest, and the layers as streams that are
// held against theirs. It knows the installation's mirrors and authorities, pull secrets, and what a registry
// may do to who asks it: nothing is read beyond a limit, nothing by plain HTTP but from where that is allowed,
// nothing from elsewhere than a manifest says, and of what a registry answers in an error only the codes are
// passed on.
//
// It does not know what is in an image: pkg/bundle/unpack (a bundle) and pkg/catalog/layer (a file-based
// catalog) do, with limits of their own.
package image
