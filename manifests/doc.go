// Package manifests contains everything that is applied to install Remit, as plain YAML with kustomize overlays. It can
// also render an install profile in this process.
//
//	crds      the API, copied from github.com/operator-framework/api by make generate
//	base      the common part of both profiles: the two programs and their permissions, a closed list
//	bounded   no default account; the default
//	compat    a default account bound to cluster-admin, and tokens for any ServiceAccount
//
//	extensions          ClusterCatalogs and ClusterExtensions: the third program; no profile contains it
//	extensions/crds     their API, generated from api/v1 by make generate
//	compat/extensions   extensions for the profile compat
//	packages            PackageManifests: the program package-server; no profile contains it
//
// "kubectl remit run" and the test environment call Install. The alternative is
// `kubectl apply -k manifests/bounded`. The package is independent of the controllers.
package manifests
