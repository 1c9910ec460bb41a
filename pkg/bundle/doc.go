// Package bundle turns the manifests of a registry+v1 bundle into objects, purely: it parses, limits,
// validates and strips, and asks nothing of a cluster. Everything in a bundle is hostile bytes
// (security model, rule 8); what is wrong with it is said in an error that names the manifest.
//
// The resolver calls it to make steps; the CLI calls it to explain a bundle.
package bundle
