// Package install has what the resolver and the csv controller share for installing a ClusterServiceVersion: the
// check of its permissions for a ServiceAccount. The subpackages install its parts.
package install
