// Package bundle turns the manifests of a registry+v1 bundle into objects, without access to a cluster: it limits their
// size and number, validates them and removes disallowed metadata. Bundles are untrusted input (security model, rule
// 8); errors name the manifest.
//
// The resolver uses the objects to build steps, and the CLI uses them to describe bundles.
package bundle
