// Package configmap reads a catalog from a ConfigMap: file-based catalog content in any key that ends in .yaml, .yml or
// .json, or OLM's legacy keys (customResourceDefinitions, clusterServiceVersions, packages), which contain the manifests
// themselves. It never changes the ConfigMap.
//
// The catalogsource controller uses it for source types configmap and internal.
package configmap
