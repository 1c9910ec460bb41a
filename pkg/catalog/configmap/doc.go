// Package configmap takes a ConfigMap as a catalog: file-based catalog content in any key that ends
// in .yaml, .yml or .json, or OLM's legacy keys (customResourceDefinitions, clusterServiceVersions,
// packages), which carry the manifests themselves. It reads a ConfigMap that the caller has fetched
// and never changes it.
//
// The catalogsource controller calls it for source types configmap and internal.
package configmap
