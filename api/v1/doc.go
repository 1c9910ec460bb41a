// Package v1 contains the API group olm.operatorframework.io/v1: ClusterExtension and ClusterCatalog. Field names,
// validation messages and defaults are those of the OLM v1 releases in which ClusterExtensions had a ServiceAccount,
// so that manifests for these releases can be applied unchanged. spec.serviceAccount is optional here, and
// status.identity, status.inventory and the condition Authorized are additions of Remit.
//
// `make generate` generates the deep-copy functions and the CustomResourceDefinitions in manifests/extensions/crds.
// The comments of the fields are their descriptions.
//
// +kubebuilder:object:generate=true
// +groupName=olm.operatorframework.io
package v1
