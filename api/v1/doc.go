// Package v1 contains the API group olm.operatorframework.io/v1: ClusterExtension and ClusterCatalog. Field names,
// validation messages and defaults are those of OLM v1 as it was when ClusterExtensions had a service account, so that
// its manifests can be applied unchanged. spec.serviceAccount is optional here, and status.identity, status.inventory
// and the condition Authorized are additions of Remit.
//
// `make generate` generates the deep copies, and the CustomResourceDefinitions in manifests/extensions/crds. The
// comments of the fields are their descriptions.
//
// +kubebuilder:object:generate=true
// +groupName=olm.operatorframework.io
package v1
