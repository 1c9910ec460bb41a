// Package kinds caches which kinds an API server does not serve. Authors of bundles and ClusterServiceVersions can name
// arbitrary kinds, and discovery sends a request for each unknown kind.
package kinds
