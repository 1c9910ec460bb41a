// Package manifests holds everything that an installation of Remit applies, as plain YAML with
// kustomize overlays, and renders a profile of it in process.
//
//	crds      the API, copied from github.com/operator-framework/api by make generate
//	base      what both profiles share: the two programs and their closed list of rights
//	bounded   no default account; the default
//	compat    a default account bound to cluster-admin, and tokens for any ServiceAccount
//
// The command line's run and the test environment call Render; everybody else may use
// `kubectl apply -k manifests/bounded`. It does not talk to a cluster and knows nothing of the
// controllers.
package manifests
