// Package manifests holds everything that an installation of Remit applies, as plain YAML with
// kustomize overlays, and renders a profile of it in process.
//
//	crds      the API, copied from github.com/operator-framework/api by make generate
//	base      what both profiles share: the two programs and the closed list of their permissions
//	bounded   no default account; the default
//	compat    a default account bound to cluster-admin, and tokens for any ServiceAccount
//
// "kubectl remit run" and the test environment call Install. The alternative is
// `kubectl apply -k manifests/bounded`. The package is independent of the controllers.
package manifests
