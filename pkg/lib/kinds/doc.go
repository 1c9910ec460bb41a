// Package kinds knows which kinds an API server does not serve. Bundles and ClusterServiceVersions name kinds as their authors
// like, and discovery costs a request for each that is not there.
package kinds
