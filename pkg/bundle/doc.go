// Package bundle turns the manifests of a registry+v1 bundle into objects: it parses, limits, validates and strips them,
// without access to a cluster. Bundles are untrusted input (security model, rule 8); errors name the manifest.
//
// The resolver uses it to build steps, and the CLI to describe bundles.
package bundle
